#pragma once

#include <string>

#include "core/inside.h"
#include "tests/support/catch.h"
#include "text/tokenizer.h"

namespace accrue::test {

// Checks, for every beginning of a text, that the tokens of the beginning and the tokens of the
// rest together are the tokens of the whole text.
inline void check_every_cut(const Tokenizer& tokenizer, const std::string& text) {
  for (const TextPlace place : {TextPlace::begins, TextPlace::goes_on}) {
    const std::vector<int32_t> whole = tokenizer.encode(text, place);
    for (size_t n = 0; n <= text.size(); ++n) {
      auto [tokens, bytes] = tokenizer.encode_beginning(text.substr(0, n), place);
      CAPTURE(n, bytes);
      REQUIRE(bytes <= n);
      if (bytes == 0) REQUIRE(tokens.empty());
      if (bytes == 0) continue;
      const auto rest = tokenizer.encode(text.substr(bytes), TextPlace::goes_on);
      tokens.insert(tokens.end(), rest.begin(), rest.end());
      REQUIRE(tokens == whole);
    }
  }
}

}  // namespace accrue::test
