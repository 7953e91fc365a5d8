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

// Splits a text into words; merges never cross words (the "pre-tokenization" of a tokenizer).
class WordSplitter {
 public:
  // Splits each part that earlier steps left into the matches of an expression and the gaps between
  // them. A step may drop the matches or the gaps.
  struct Step {
    Regex pattern;
    bool keeps_matches = true, keeps_gaps = true;
  };
  static constexpr size_t nowhere = SIZE_MAX;

  // Before step number `blank_before_step`, or after the last step if that is the number of steps,
  // each part that does not begin with a blank gets one. Before the first step, a part that
  // continues a text gets none.
  explicit WordSplitter(std::vector<Step> steps, size_t blank_before_step = nowhere)
      : steps_(std::move(steps)), blank_before_step_(blank_before_step) {}

  // Calls use(word) for each word in order. A byte that is not UTF-8 is a word by itself, and ends
  // the text before it.
  using Use = std::function<void(std::string_view word)>;
  void split(std::string_view text, TextPlace place, Matcher& matcher, const Use& use) const;
  // The same for the words that stay the same whatever comes after the text. Returns how many bytes
  // they take.
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

// The expression by which GPT-2 splits.
extern const char* const gpt2_pattern;

}  // namespace accrue
