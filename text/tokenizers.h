#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "text/bpe_training.h"
#include "text/tokenizer.h"

namespace accrue {

// The tokenizer of this name: "bytes", that of a file FILE.gguf, or a path as read_tokenizer()
// takes it.
TokenizerPtr tokenizer_at(const std::string& name);

// A tokenizer, and the contents of its files by the names by which read_tokenizer() finds them in a
// directory; bytes have none.
struct TokenizerFiles {
  TokenizerPtr tokenizer;
  std::map<std::string, std::string> files{};

  // "bytes", or one of the files.
  std::string name() const {
    for (const char* const whole : {"tokenizer.json", "tokenizer.gguf", "tokenizer.model"})
      if (files.contains(whole)) return whole;
    return files.empty() ? "bytes" : files.rbegin()->first;
  }
};
// All names that such files have.
std::span<const char* const> names_of_tokenizer_files();
// As tokenizer_at(), with the files that are read there.
TokenizerFiles tokenizer_with_files(const std::string& name);
// What train_bpe() learns from words (text/bpe_training.h).
TokenizerFiles trained_tokenizer(const WordCounts& words, int64_t vocabulary_size);

}  // namespace accrue
