#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "data/safetensors.h"
#include "text/bpe_training.h"
#include "text/tokenizer.h"

namespace accrue::detail {

// The tokenizer of this name: "bytes", the tokenizer of a GGUF file FILE.gguf, or a path as
// read_tokenizer() takes it.
TokenizerPtr tokenizer_at(const std::string& name);

// A tokenizer and the contents of its files, by the names under which read_tokenizer() finds them
// in a directory. The bytes tokenizer has no files.
struct TokenizerFiles {
  TokenizerPtr tokenizer;
  std::map<std::string, std::string> files{};

  // "bytes", or the name of one of the files.
  std::string name() const {
    for (const char* const whole : {"tokenizer.json", "tokenizer.gguf", "tokenizer.model"})
      if (files.contains(whole)) return whole;
    return files.empty() ? "bytes" : files.rbegin()->first;
  }
};
// All names that such files can have.
std::span<const char* const> names_of_tokenizer_files();
// Like tokenizer_at(), and also returns the files.
TokenizerFiles tokenizer_with_files(const std::string& name);
// The tokenizer that train_bpe() learns from words (text/bpe_training.h).
TokenizerFiles trained_tokenizer(const WordCounts& words, int64_t vocabulary_size);

// The tokenizer that a model learned with, or that made the tokens of data.
struct KnownTokenizer {
  std::string place{};     // as tokenizer_at() takes it; empty if unknown
  std::string checksum{};  // tokenizer_checksum(); empty if unknown
  int64_t size = 0;        // 0 if unknown

  bool is_known() const { return !checksum.empty(); }
};

// Equal for two tokenizers whose numbers mean the same, whatever files they come from: it depends
// on the bytes of all tokens, in order. The tokens [PADn] with which converters pad a vocabulary do
// not count.
std::string tokenizer_checksum(const Tokenizer& tokenizer);
// Reads the tokenizer of this name.
KnownTokenizer known_tokenizer(const std::string& place);
// The tokenizer of a GGUF file, without a checksum if accrue cannot read it; empty if the file has
// none.
KnownTokenizer tokenizer_in_gguf(const std::string& path);

// Reads the tokenizer from the metadata of weights, and writes it there.
KnownTokenizer tokenizer_said_in(const Metadata& said);
void add_tokenizer(const KnownTokenizer& known, Metadata& metadata);

// The tokenizer in the directory of a model.safetensors, where transformers stores it; empty if the
// weights have another name.
KnownTokenizer tokenizer_beside(const std::string& weights);

// The directory in which `text import` stores the files of a tokenizer: w.tokenizer beside
// w.safetensors. keep_tokenizer() writes the files there and removes other files of a tokenizer.
std::string tokenizer_folder_of(const std::string& weights);
void keep_tokenizer(const TokenizerFiles& tokenizer, const std::string& folder);

// The path of the tokenizer of weights: its original place, or else a place beside the weights, or
// their base if that is a GGUF file. Throws Error if no such tokenizer has the checksum.
std::string find_tokenizer(const KnownTokenizer& known, const std::string& weights,
                           const std::string& base = {});

// True if a tokenizer of `tokens` tokens may belong to a model with this vocabulary: vocabularies
// are padded to a round number, such as llm.c's to 50,304 for 50,257.
bool may_be_padded(int64_t vocabulary, int64_t tokens);

}  // namespace accrue::detail
