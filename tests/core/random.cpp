#include "core/random.h"

#include <algorithm>

#include "tests/support/catch.h"

namespace accrue::test {

// The known answers of the authors' Random123 library (kat_vectors, philox4x32 10).
TEST_CASE("Philox gives the published words", "[random]") {
  REQUIRE(philox(0, 0, 0) ==
          std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  REQUIRE(philox(~uint64_t{0}, ~uint64_t{0}, ~uint64_t{0}) ==
          std::array<uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  REQUIRE(philox(0x299f31d0a4093822, 0x85a308d3243f6a88, 0x0370734413198a2e) ==
          std::array<uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
  // Many blocks at once give the same words as each block alone.
  std::array<uint32_t, 64> words;
  philox_words<16>(words.data(), 5, 7 + (uint64_t{3} << 32), 9);
  for (size_t i = 0; i < 16; ++i) {
    const auto each = philox(5, 7 + i + (uint64_t{3} << 32), 9);
    REQUIRE(std::equal(each.begin(), each.end(), words.begin() + static_cast<ptrdiff_t>(4 * i)));
  }
}

}  // namespace accrue::test
