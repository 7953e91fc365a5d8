#pragma once

#include <optional>
#include <set>
#include <string>

#include "data/gguf_writer.h"
#include "data/safetensors.h"
#include "text/models.h"
#include "text/tokenizers.h"

namespace accrue {

// Language models and adapters for GGUF files, as llama.cpp's convert_hf_to_gguf.py and
// convert_lora_to_gguf.py write them: the inverse of text/gguf_model.h. Each throws Error for a
// GPT-2, and for what a Llama here has and llama.cpp's of its architecture has not.

// In which types matrices are stored. Vectors are F32, and so is a matrix of a narrower type that
// has no whole blocks in F16.
struct GgufStorage {
  DType type = DType::f16;  // F32, F16, BF16, or one that kernels/quantize.h makes
  // In place of it the types of this file, of the same model. Its tensors are copied as they lie,
  // but for `changed`, names of parameters.
  const GgufFile* like = nullptr;
  std::set<std::string> changed{};
};
// Adds what the file says of a model, and its tensors. The weights must live until it is written.
void add_gguf_model(GgufWriter& file, const TextModelOptions& model, const NamedTensors& weights,
                    const GgufStorage& storage);

// Adds the tokenizer of a model of `vocabulary` tokens, with the template of its chats: the keys of
// another GGUF file as they are; or those of the byte-level BPE of a tokenizer.json that splits
// texts in a way that files of this kind name (text/gguf_tokenizer.h). Tokens that the model has
// beyond it are named as the converter names them, and not used. Throws Error for another
// tokenizer, and for one that has more tokens than the model.
void add_gguf_tokenizer(GgufWriter& file, const GgufFile& from, int64_t vocabulary);
void add_gguf_tokenizer(GgufWriter& file, const TokenizerFiles& from, int64_t vocabulary);

// Adds the adapters among these weights, in F32, for llama.cpp's --lora.
void add_gguf_adapters(GgufWriter& file, const TextModelOptions& model, const LoraOptions& lora,
                       const NamedTensors& weights);

}  // namespace accrue
