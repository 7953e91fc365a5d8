#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "text/regex.h"

namespace accrue {

// Cuts a text into words, across which nothing is merged (a tokenizer's "pre-tokenization").
class WordSplitter {
 public:
  // Each part that the steps before have left becomes the matches of an expression and the gaps
  // between them, of which some steps drop one or the other.
  struct Step {
    Regex pattern;
    bool keeps_matches = true, keeps_gaps = true;
  };
  static constexpr size_t nowhere = SIZE_MAX;

  // Before that step, or after the last if it is their number, each part that does not begin with a
  // blank gets one.
  explicit WordSplitter(std::vector<Step> steps, size_t blank_before_step = nowhere)
      : steps_(std::move(steps)), blank_before_step_(blank_before_step) {}

  // Calls use(word) for each word in turn. A byte that is not UTF-8 is a word, and the end of what
  // is before it.
  using Use = std::function<void(std::string_view word)>;
  void split(std::string_view text, Matcher& matcher, const Use& use) const;

 private:
  void split_from(size_t step, std::string_view part, Matcher& matcher, const Use& use) const;

  std::vector<Step> steps_;
  size_t blank_before_step_;
};

// As GPT-2 splits.
extern const char* const gpt2_pattern;

}  // namespace accrue
