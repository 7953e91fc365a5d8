#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "text/added_tokens.h"
#include "text/merges.h"
#include "text/tokenizer.h"
#include "text/word_splitter.h"

namespace accrue {

// A byte-level byte-pair encoding as the file of a tokenizer describes it.
struct BpeDescription {
  static constexpr int32_t none = -1;

  std::string name;                 // for errors
  std::vector<std::string> tokens;  // their bytes; empty where a number is not a token
  // The token of each byte, the token for bytes without one, and whether neighboring bytes share
  // it.
  std::array<int32_t, 256> bytes;
  int32_t unknown = none;
  bool fuses_unknown = false;
  // Words that are a single token, whatever the merges would give.
  std::vector<int32_t> whole_words;
  std::vector<Merges::Merge> merges;
  std::vector<WordSplitter::Step> steps;
  size_t blank_before_step = WordSplitter::nowhere;
  // The text between tokens of the first list is composed (text/utf8.h) if `composes`, and then
  // searched for tokens of the second list.
  std::array<std::vector<AddedToken>, 2> added;
  bool composes = false;
  int32_t end_of_text = none;
  std::vector<int32_t> before_text, after_text;
};

TokenizerPtr make_bpe(BpeDescription description);

}  // namespace accrue
