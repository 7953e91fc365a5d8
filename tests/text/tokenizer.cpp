#include "text/tokenizer.h"

#include "core/inside.h"
#include "tests/support/catch.h"

namespace accrue::test {

TEST_CASE("bytes are tokens", "[text]") {
  const TokenizerPtr bytes = bytes_tokenizer();
  const std::string text("a\0\xff\xc3\xa9", 5);
  REQUIRE(bytes->encode(text) == std::vector<int32_t>{97, 0, 255, 195, 169});
  REQUIRE(bytes->decode(bytes->encode(text)) == text);
  REQUIRE(bytes->decode(std::vector{104, 256, 105}) == "hi");
  REQUIRE_ERROR(bytes->decode(std::vector{257}), "token 257 is outside [0, 257)");
}

}  // namespace accrue::test
