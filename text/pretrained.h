#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "data/safetensors.h"
#include "text/models.h"

namespace accrue::detail {

// A language model as Hugging Face's transformers keep it: a directory of config.json and of
// model.safetensors, or several files that model.safetensors.index.json names.

// The name of what a GGUF file says in keys general.* of who made its model, as an object.
inline constexpr const char* gguf_general_name = "gguf-general.json";

// What config.json says: the model of text_model() and all in which it differs, so that nothing
// rests on that model's own sizes.
struct PretrainedModel {
  std::string name;  // of the known model that has these sizes, or else of one of this architecture
  TextModelSizes sizes;
  int64_t vocabulary, context;
  // The texts of config.json and, if it is there, of generation_config.json, for who gives the
  // model back; and of a GGUF file what add_gguf_general() adds.
  Metadata files{};
  std::vector<std::string> warnings{};  // of keys that are not known (text/config_file.h)
  std::string title{};  // what its makers, or its file, call it: "smollm2-135m-instruct"
};
// A title of words, such as "SmolLM2 135M_Instruct", as one word in small letters.
std::string plain_title(const std::string& words);
// True if two models are the same but for their vocabularies and, of Llamas, for the length of the
// texts that they are made for.
bool have_same_sizes(TextModelOptions a, TextModelOptions b);
// Names it by the known model of its sizes, if there is one.
void find_known_name(PretrainedModel& model);
// Reads GPT2LMHeadModel, LlamaForCausalLM and Qwen2ForCausalLM. Throws Error for another
// architecture and for what these models here do not have, such as another activation
// (text/config_file.h).
PretrainedModel read_pretrained_config(const std::filesystem::path& directory);

// The tensors of a language model's parameters by their names here, without what transformers
// stores beside them: masks, and a head that is the embedding. GPT-2's files may leave out the
// first word of names, "transformer". Throws Error for a head that should be the embedding, but
// differs from it.
NamedTensors read_pretrained_weights(const std::filesystem::path& directory,
                                     const PretrainedModel& model);

// The tokens that begin and end a text, as configurations have them.
struct TextEnds {
  std::optional<int64_t> begin{}, end{};
};
// The text of a config.json for a model, from which transformers' AutoModelForCausalLM makes the
// same. `dtype` is that of the weights beside it.
std::string pretrained_config(const TextModelOptions& model, DType dtype,
                              const TextEnds& ends = {});
// The files of a model beside its weights: those that it came with (PretrainedModel::files), with
// the type of the weights; in place of a config.json that is not there, or is of another model,
// that of pretrained_config(). Keys of a GGUF file are none.
Metadata pretrained_files(const TextModelOptions& model, DType dtype, const TextEnds& ends,
                          const Metadata& imported);

// Adapters as PEFT keeps them: a directory of adapter_config.json and adapter_model.safetensors.
struct PretrainedAdapters {
  LoraOptions options;
  NamedTensors weights;  // by their names here
};
// Throws Error for another kind of adapters than LoRA, and for what those here do not have, such as
// ranks of their own for some layers.
PretrainedAdapters read_pretrained_adapters(const std::filesystem::path& directory);

// The text of an adapter_config.json for adapters of a model. `base` is the name or directory of
// the weights below them; it may be empty.
std::string pretrained_adapter_config(const TextModelOptions& model, const LoraOptions& lora,
                                      const std::string& base);
// The adapters among the tensors of a model, by PEFT's names.
NamedTensors as_pretrained_adapters(const NamedTensors& weights);

}  // namespace accrue::detail
