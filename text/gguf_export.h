#pragma once

#include <optional>
#include <set>
#include <string>

#include "data/gguf_writer.h"
#include "data/safetensors.h"
#include "text/base.h"
#include "text/models.h"

namespace accrue {

// Language models and adapters for GGUF files, as llama.cpp's convert_hf_to_gguf.py and
// convert_lora_to_gguf.py write them: for Llamas the inverse of text/gguf_model.h. Each throws
// Error for what a model here has and llama.cpp's of its architecture has not.

// In which types matrices are stored, but for the embedding of positions; that and vectors are F32,
// and a matrix whose rows have no whole blocks is F16.
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

// How much of what adapters have added to a base's weights, along its own direction, is left once
// these are rounded to the types of the file: 1 is all of it. Where weights lie on the steps of
// blocks, as those of a base in such blocks, rounding takes them back there.
double share_of_changes_kept(const Base& base, const NamedTensors& weights,
                             const GgufStorage& storage);

// Adds what the GGUF file that a model came in says of who made it (PretrainedModel::files): name,
// license, size_label and others; nothing if it did not come in one.
void add_gguf_general(GgufWriter& file, const Metadata& files);

// Adds the adapters among these weights, in F32, for llama.cpp's --lora.
void add_gguf_adapters(GgufWriter& file, const TextModelOptions& model, const LoraOptions& lora,
                       const NamedTensors& weights);

}  // namespace accrue
