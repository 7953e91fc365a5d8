#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "text/tokenizer.h"

namespace accrue::detail {

// How often each word occurs in texts, as GPT-2 splits them into words.
class WordCounts {
 public:
  void add(std::string_view text);
  // The words that are the same whatever comes after `text`. Returns their bytes.
  size_t add_beginning(std::string_view text);

  const std::unordered_map<std::string, int64_t>& counts() const { return counts_; }

 private:
  std::unordered_map<std::string, int64_t> counts_;
};

// Learns byte-pair encoding: tokens for the 256 bytes, then one for the pair of neighbouring tokens
// that occurs most often within the words, again and again, and at last <|endoftext|>. Of pairs
// that occur equally often, that of the smaller first number comes first, and then of the smaller
// second. Returns the content of a tokenizer.json for read_tokenizer() and for Hugging Face's
// `tokenizers`, whose BpeTrainer learns the same merges. It has fewer tokens than vocabulary_size
// where no pair is left. Takes time in proportion to the occurrences that are merged, and memory to
// the different words. Throws Error for a size below 257.
std::string train_bpe(const WordCounts& words, int64_t vocabulary_size);

}  // namespace accrue::detail
