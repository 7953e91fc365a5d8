#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "text/gpt2.h"
#include "text/llama.h"
#include "text/lora.h"

namespace accrue {

namespace detail {

class Base;
using BasePtr = std::shared_ptr<const Base>;

using TextModelOptions = std::variant<Gpt2Options, LlamaOptions>;

// The language models by name: gpt-tiny and llama-tiny (4 layers of width 128), gpt2, gpt2-medium,
// gpt2-large, gpt2-xl (124M to 1.5B parameters), smollm2-135m, tinyllama (1.1B), llama3.2-1b,
// qwen2-0.5b.
std::vector<std::string> text_model_names();

// Differences from the known model of a name. `positions` is the length of the texts that the model
// is made for; a GPT has an embedding for each position.
struct TextModelSizes {
  std::optional<int64_t> layers, heads, width, positions;
  // Only Llamas have the following three.
  std::optional<int64_t> groups, hidden, head_size;
  std::optional<double> norm_eps, rotary_base;
  std::string rotary_scaling;  // "llama3:32:1:4:8192", "linear:4", "none"
  std::optional<bool> is_tied;
  std::optional<bool> has_bias;  // only in Llamas
};

}  // namespace detail

// The options of the known model of this name, with these sizes. Throws Error for an unknown name.
detail::TextModelOptions text_model(const std::string& name,
                                    const detail::TextModelSizes& sizes = {});

namespace detail {

// The options with this vocabulary and dropout, for rows of `context` tokens: the model's context
// becomes at least that.
TextModelOptions text_model_for(TextModelOptions options, int64_t vocabulary, int64_t context,
                                double dropout = 0);

}  // namespace detail

// Makes a language model with these options. With a base, it takes its parameters from the base. If
// LoRA has a rank, the model has adapters.
std::unique_ptr<LanguageModel> make_text_model(const detail::TextModelOptions& options,
                                               const LoraOptions& lora = {},
                                               const detail::BasePtr& base = nullptr);

}  // namespace accrue
