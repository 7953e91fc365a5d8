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

// What is otherwise than in a model of that name. Positions are those of the texts that it is made
// for, of which GPTs have an embedding.
struct TextModelSizes {
  std::optional<int64_t> layers, heads, width, positions;
  // A GPT has none of these.
  std::optional<int64_t> groups, hidden, head_size;
  std::optional<double> norm_eps, rotary_base;
  std::string rotary_scaling;  // "llama3:32:1:4:8192", "linear:4", "none"
  std::optional<bool> is_tied;
  std::optional<bool> has_bias;  // of Llamas
};

}  // namespace detail

// Throws Error for a name that is none of them.
detail::TextModelOptions text_model(const std::string& name,
                                    const detail::TextModelSizes& sizes = {});

namespace detail {

// For rows of this many tokens of a vocabulary, which it is then made for at least.
TextModelOptions text_model_for(TextModelOptions options, int64_t vocabulary, int64_t context,
                                double dropout = 0);

}  // namespace detail

// With a base its parameters are the base's; with adapters if LoRA has a rank.
std::unique_ptr<LanguageModel> make_text_model(const detail::TextModelOptions& options,
                                               const LoraOptions& lora = {},
                                               const detail::BasePtr& base = nullptr);

}  // namespace accrue
