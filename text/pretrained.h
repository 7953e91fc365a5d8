#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "data/safetensors.h"
#include "text/models.h"

namespace accrue::detail {

// Reads and writes language models in the format of Hugging Face's transformers: a directory with
// config.json and with model.safetensors, or with several files that model.safetensors.index.json
// names.

// The name under which a GGUF file's keys general.*, which describe the origin of its model, are
// kept as a JSON object.
inline constexpr const char* gguf_general_name = "gguf-general.json";

// The contents of config.json: a known model of text_model(), and all settings in which this model
// may differ, so that the result does not depend on the known model's own sizes.
struct PretrainedModel {
  std::string name;  // of the known model with these sizes, or else of one of this architecture
  TextModelSizes sizes;
  int64_t vocabulary, context;
  // The texts of config.json and, if it exists, generation_config.json, which are written again
  // when the model is exported. For a GGUF file also the keys that add_gguf_general() adds.
  Metadata files{};
  std::vector<std::string> warnings{};  // about unknown keys (text/config_file.h)
  std::string title{};  // the name that its makers, or its file, give it: "smollm2-135m-instruct"
};
// Turns a title of words, such as "SmolLM2 135M_Instruct", into one word in small letters.
std::string plain_title(const std::string& words);
// True if two models differ at most in their vocabularies and, for Llamas, in the length of the
// texts that they are made for.
bool have_same_sizes(TextModelOptions a, TextModelOptions b);
// Sets the name to that of the known model with the same sizes, if there is one.
void find_known_name(PretrainedModel& model);
// Reads GPT2LMHeadModel, LlamaForCausalLM and Qwen2ForCausalLM. Throws Error for another
// architecture and for features that accrue's models lack, such as another activation
// (text/config_file.h).
PretrainedModel read_pretrained_config(const std::filesystem::path& directory);

// The parameters of a language model by accrue's names, without other tensors in its files: masks,
// and the head where it is the embedding. Files of GPT-2 may omit the prefix "transformer" of
// names. Throws Error if a head should equal the embedding but differs from it.
NamedTensors read_pretrained_weights(const std::filesystem::path& directory,
                                     const PretrainedModel& model);

// The tokens that begin and end a text, according to a configuration.
struct TextEnds {
  std::optional<int64_t> begin{}, end{};
};
// The text of a config.json from which transformers' AutoModelForCausalLM makes the same model.
// `dtype` is the type of the weights beside it.
std::string pretrained_config(const TextModelOptions& model, DType dtype,
                              const TextEnds& ends = {});
// The files of a model other than its weights. These are the files of the imported model
// (PretrainedModel::files) with the type of the weights updated. A config.json that is missing or
// describes another model is replaced with pretrained_config(). Keys of a GGUF file are left out.
Metadata pretrained_files(const TextModelOptions& model, DType dtype, const TextEnds& ends,
                          const Metadata& imported);

// Adapters in PEFT's format: a directory with adapter_config.json and adapter_model.safetensors.
struct PretrainedAdapters {
  LoraOptions options;
  NamedTensors weights;  // by accrue's names
};
// Throws Error for adapters other than LoRA, and for features that accrue's adapters lack, such as
// different ranks for some layers.
PretrainedAdapters read_pretrained_adapters(const std::filesystem::path& directory);

// The text of an adapter_config.json for the adapters of a model. `base` is the name or directory
// of the base model; it may be empty.
std::string pretrained_adapter_config(const TextModelOptions& model, const LoraOptions& lora,
                                      const std::string& base);
// The adapters among the tensors of a model, under PEFT's names.
NamedTensors as_pretrained_adapters(const NamedTensors& weights);

}  // namespace accrue::detail
