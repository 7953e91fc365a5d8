#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "data/safetensors.h"
#include "text/bpe_training.h"
#include "text/tokenizer.h"

namespace accrue::detail {

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

// The tokenizer that a model learned by, or that made the tokens of data.
struct KnownTokenizer {
  std::string place{};     // as tokenizer_at() takes it; empty if nobody says it
  std::string checksum{};  // that of tokenizer_checksum(); empty if it is not known
  int64_t size = 0;        // 0 if it is not known

  bool is_known() const { return !checksum.empty(); }
};

// Tells by the bytes of all tokens, in order, whether two tokenizers mean the same by their
// numbers, whatever files they come from. The tokens [PADn] with which converters fill a vocabulary
// at its end do not count.
std::string tokenizer_checksum(const Tokenizer& tokenizer);
// The tokenizer of this name, which is read.
KnownTokenizer known_tokenizer(const std::string& place);
// That of a GGUF file. Without a checksum if it has one that cannot be read, and nothing if it has
// none.
KnownTokenizer tokenizer_in_gguf(const std::string& path);

// What the metadata of weights says of it, and what they shall say.
KnownTokenizer tokenizer_said_in(const Metadata& said);
void add_tokenizer(const KnownTokenizer& known, Metadata& metadata);

// That in the directory of a model.safetensors, as transformers keep it there; nothing for weights
// of another name.
KnownTokenizer tokenizer_beside(const std::string& weights);

// The directory in which `text import` keeps the files of a tokenizer: w.tokenizer beside
// w.safetensors. Writes these files there, and removes others of a tokenizer.
std::string tokenizer_folder_of(const std::string& weights);
void keep_tokenizer(const TokenizerFiles& tokenizer, const std::string& folder);

// Where the tokenizer of weights lies: where it lay, or else beside them, or in their base, a GGUF
// file. Throws Error if there is none with its checksum.
std::string find_tokenizer(const KnownTokenizer& known, const std::string& weights,
                           const std::string& base = {});

// True if a model of so many tokens may be that of a tokenizer of `tokens`: vocabularies are padded
// to a round number, as llm.c's to 50,304 for 50,257.
bool may_be_padded(int64_t vocabulary, int64_t tokens);

}  // namespace accrue::detail
