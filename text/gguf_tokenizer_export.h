#pragma once

#include <cstdint>

#include "data/gguf_writer.h"
#include "text/tokenizers.h"

namespace accrue {

// Adds the tokenizer of a model of `vocabulary` tokens to a GGUF file, with the template of its
// chats, as llama.cpp's convert_hf_to_gguf.py does: the inverse of text/gguf_tokenizer.h. They are
// the keys of another GGUF file as they are; or are made of
//   a byte-level BPE that splits texts in a way that has a name there (tokenizer.json, or GPT-2's
//   files), or bytes, which are a BPE without merges ("gpt2");
//   a BPE of SentencePiece ("llama").
// What begins and ends a text is what the tokenizer puts there. Tokens that the model has beyond it
// are named as the converter names them, and not used. Throws Error for another tokenizer, for one
// that has more tokens than the model, and for what llama.cpp would read otherwise: several tokens
// before a text, and tokens that take the space beside them or are found as whole words alone.
void add_gguf_tokenizer(GgufWriter& file, const GgufFile& from, int64_t vocabulary);
void add_gguf_tokenizer(GgufWriter& file, const TokenizerFiles& from, int64_t vocabulary);

}  // namespace accrue
