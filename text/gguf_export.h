#pragma once

#include <optional>
#include <set>
#include <string>

#include "data/gguf_writer.h"
#include "data/safetensors.h"
#include "text/base.h"
#include "text/models.h"

namespace accrue {

// Writes language models and adapters to GGUF files in the format of llama.cpp's
// convert_hf_to_gguf.py and convert_lora_to_gguf.py; for Llamas this is the inverse of
// text/gguf_model.h. Each function throws Error if a model has something that llama.cpp's model of
// the same architecture lacks.

// The types in which matrices are stored. Vectors and the position embedding are F32, and matrices
// whose rows do not consist of whole blocks are F16.
struct GgufStorage {
  DType type = DType::f16;  // F32, F16, BF16, or one that kernels/quantize.h makes
  // If set, overrides `type`: a file of the same model, whose types are used and whose tensors are
  // copied unchanged, except for `changed`, a set of parameter names.
  const GgufFile* like = nullptr;
  std::set<std::string> changed{};
};
// Adds the keys that describe a model, and its tensors. The weights must live until the file is
// written.
void add_gguf_model(GgufWriter& file, const TextModelOptions& model, const NamedTensors& weights,
                    const GgufStorage& storage);

// The share of the adapters' change to a base's weights that remains after rounding to the types of
// the file, measured along the change itself: 1 if all of it remains. If the base is stored in the
// same kind of blocks, its weights are values that the blocks can represent, and rounding tends to
// restore them.
double share_of_changes_kept(const Base& base, const NamedTensors& weights,
                             const GgufStorage& storage);

// Adds the keys about the origin of a model that came in a GGUF file (PretrainedModel::files):
// name, license, size_label and others. Adds nothing if the model came in another format.
void add_gguf_general(GgufWriter& file, const Metadata& files);

// Adds the adapters among these weights, as F32, for llama.cpp's --lora.
void add_gguf_adapters(GgufWriter& file, const TextModelOptions& model, const LoraOptions& lora,
                       const NamedTensors& weights);

}  // namespace accrue
