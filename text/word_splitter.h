#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/inside.h"
#include "text/regex.h"
#include "text/tokenizer.h"

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
  // blank gets one, but before the first step not what goes on.
  explicit WordSplitter(std::vector<Step> steps, size_t blank_before_step = nowhere)
      : steps_(std::move(steps)), blank_before_step_(blank_before_step) {}

  // Calls use(word) for each word in turn. A byte that is not UTF-8 is a word, and the end of what
  // is before it.
  using Use = std::function<void(std::string_view word)>;
  void split(std::string_view text, TextPlace place, Matcher& matcher, const Use& use) const;
  // The same with the words that are the same whatever comes after the text. Returns their bytes.
  size_t split_beginning(std::string_view text, TextPlace place, Matcher& matcher,
                         const Use& use) const;

 private:
  std::string beginning_of(std::string_view part, TextPlace place) const;
  void split_from(size_t step, std::string_view part, Matcher& matcher, const Use& use) const;
  void split_at(size_t step, std::string_view part, Matcher& matcher, const Use& use) const;
  size_t split_surely(size_t step, std::string_view part, Matcher& matcher, const Use& use) const;

  std::vector<Step> steps_;
  size_t blank_before_step_;
};

// As GPT-2 splits.
extern const char* const gpt2_pattern;

}  // namespace accrue
