#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "core/inside.h"
#include "data/gguf.h"
#include "text/tokenizers.h"

namespace accrue {

// Values of tokenizer.ggml.token_type.
inline constexpr int32_t gguf_normal_token = 1, gguf_control_token = 3, gguf_users_token = 4,
                         gguf_unused_token = 5;

// The tokenizer of a GGUF file: a byte-level BPE (tokenizer.ggml.model "gpt2") that splits a text
// as GPT-2, SmolLM, Qwen2 or Llama 3 do (tokenizer.ggml.pre "gpt-2", "smollm", "qwen2",
// "llama-bpe"), or a byte-pair encoding of SentencePiece ("llama", text/sentencepiece.h). The first
// is made of an equivalent tokenizer.json, which is among its files, as for the second a
// tokenizer.gguf without the model is; both have a tokenizer_config.json that says what ends a text
// and has the chat template. Control tokens and those of users are found in texts. What is put
// before and after a text tokenizer.ggml.add_bos_token and add_eos_token say, or llama.cpp's
// defaults. Throws Error for another kind, and as read_tokenizer() does.
TokenizerFiles read_gguf_tokenizer(const GgufFile& file);

// The value of tokenizer.ggml.pre for a tokenizer.json. Throws Error, or json::exception, for one
// that splits texts in another way.
std::string gguf_name_of_splitting(const nlohmann::json& tokenizer);

}  // namespace accrue
