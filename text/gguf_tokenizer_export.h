#pragma once

#include <cstdint>

#include "data/gguf_writer.h"
#include "text/tokenizers.h"

namespace accrue {

// Adds the tokenizer of a model of `vocabulary` tokens to a GGUF file, with its chat template, as
// llama.cpp's convert_hf_to_gguf.py does: the inverse of text/gguf_tokenizer.h. The first function
// copies the keys of another GGUF file. The second writes keys for
//   a byte-level BPE that splits texts in a way that has a name there (tokenizer.json, or GPT-2's
//   files), or bytes, which are a BPE without merges ("gpt2");
//   a BPE of SentencePiece ("llama").
// The tokens that begin and end a text are the ones that the tokenizer adds. Tokens of the model
// beyond the tokenizer's get the converter's names and are marked unused. Throws Error for another
// kind of tokenizer, and for one with more tokens than the model. Also throws Error where llama.cpp
// would behave differently: for several tokens before a text, and for tokens that take the space
// beside them or are found only as whole words.
void add_gguf_tokenizer(GgufWriter& file, const GgufFile& from, int64_t vocabulary);
void add_gguf_tokenizer(GgufWriter& file, const TokenizerFiles& from, int64_t vocabulary);

}  // namespace accrue
