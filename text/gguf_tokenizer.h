#pragma once

#include <string>

#include "data/gguf.h"
#include "text/tokenizers.h"

namespace accrue {

// The tokenizer of a GGUF file: a byte-level BPE (tokenizer.ggml.model "gpt2") that splits a text
// as GPT-2, SmolLM, Qwen2 or Llama 3 do (tokenizer.ggml.pre "gpt-2", "smollm", "qwen2",
// "llama-bpe"), or a byte-pair encoding of SentencePiece ("llama", text/sentencepiece.h). The first
// is made of an equivalent tokenizer.json, which is among its files, as for the second a
// tokenizer.gguf without the model is; both have a tokenizer_config.json that says what ends a text
// and has the chat template. Control tokens and those of users are found in texts; as everywhere in
// accrue, none is added to a text. Throws Error for another kind, and as read_tokenizer() does.
TokenizerFiles read_gguf_tokenizer(const GgufFile& file);

}  // namespace accrue
