#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "text/tokenizer.h"

namespace accrue::detail {

// Counts how often each word occurs in texts that are split into words as GPT-2 splits them.
class WordCounts {
 public:
  void add(std::string_view text);
  // Adds the words that stay the same whatever follows `text`. Returns how many bytes they take.
  size_t add_beginning(std::string_view text);

  const std::unordered_map<std::string, int64_t>& counts() const { return counts_; }

 private:
  std::unordered_map<std::string, int64_t> counts_;
};

// Learns a byte-pair encoding. It begins with the 256 bytes as tokens, then repeatedly adds a token
// for the pair of neighboring tokens that occurs most often within the words, and finally adds
// <|endoftext|>. Among pairs that occur equally often, the one with the smaller first number wins,
// then the one with the smaller second number. Returns the content of a tokenizer.json, which
// read_tokenizer() and Hugging Face's `tokenizers` can read; the BpeTrainer of `tokenizers` learns
// the same merges. The result has fewer than vocabulary_size tokens if no pairs are left. Time
// grows with the number of merged occurrences, memory with the number of different words. Throws
// Error for a size below 257.
std::string train_bpe(const WordCounts& words, int64_t vocabulary_size);

}  // namespace accrue::detail
