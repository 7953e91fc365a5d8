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

// Reads the tokenizer of a GGUF file. Two kinds are supported:
//   a byte-level BPE (tokenizer.ggml.model "gpt2") that splits a text as GPT-2, SmolLM, Qwen2 or
//   Llama 3 do (tokenizer.ggml.pre "gpt-2", "smollm", "qwen2", "llama-bpe");
//   a byte-pair encoding of SentencePiece ("llama", text/sentencepiece.h).
// The first becomes an equivalent tokenizer.json among the files, the second a tokenizer.gguf
// without the model. Both have a tokenizer_config.json with the end-of-text token and the chat
// template. Control tokens and user-defined tokens are found in texts. tokenizer.ggml.add_bos_token
// and add_eos_token, or llama.cpp's defaults, decide which tokens come before and after a text.
// Throws Error for another kind, and in the same cases as read_tokenizer().
TokenizerFiles read_gguf_tokenizer(const GgufFile& file);

// The value of tokenizer.ggml.pre for a tokenizer.json. Throws Error, or json::exception, if the
// tokenizer splits texts in another way.
std::string gguf_name_of_splitting(const nlohmann::json& tokenizer);

}  // namespace accrue
