#include "text/models.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <ranges>
#include <sstream>

#include "core/inside.h"
#include "text/base.h"

namespace accrue {
namespace {

// The sizes in the config.json of the published weights.
const std::map<std::string, TextModelOptions>& published_models() {
  const auto gpt2 = [](int64_t width, int64_t layers, int64_t heads) {
    return Gpt2Options{.width = width, .layers = layers, .heads = heads};
  };
  static const std::map<std::string, TextModelOptions> models{
      {"gpt-tiny", Gpt2Options{.context = 256, .width = 128, .layers = 4, .heads = 4}},
      {"gpt2", gpt2(768, 12, 12)},
      {"gpt2-medium", gpt2(1024, 24, 16)},
      {"gpt2-large", gpt2(1280, 36, 20)},
      {"gpt2-xl", gpt2(1600, 48, 25)},
      {"llama-tiny",
       LlamaOptions{
           .context = 256, .width = 128, .hidden = 344, .layers = 4, .heads = 4, .groups = 2}},
      {"llama3.2-1b",
       LlamaOptions{.context = 131072,
                    .width = 2048,
                    .hidden = 8192,
                    .layers = 16,
                    .heads = 32,
                    .groups = 8,
                    .rotary = {.base = 500000, .llama3 = Llama3Scaling{.factor = 32}},
                    .is_tied = true}},
      {"qwen2-0.5b", LlamaOptions{.context = 131072,
                                  .width = 896,
                                  .hidden = 4864,
                                  .layers = 24,
                                  .heads = 14,
                                  .groups = 2,
                                  .norm_eps = 1e-6,
                                  .rotary = {.base = 1e6},
                                  .has_bias = true,
                                  .is_tied = true}},
      {"smollm2-135m", LlamaOptions{.context = 8192,
                                    .width = 576,
                                    .hidden = 1536,
                                    .layers = 30,
                                    .heads = 9,
                                    .groups = 3,
                                    .rotary = {.base = 100000},
                                    .is_tied = true}},
      {"tinyllama", LlamaOptions{}}};
  return models;
}

// Reads "linear:FACTOR" or "llama3:FACTOR:LOW:HIGH:CONTEXT"; "none" means no scaling.
void read_scaling(const std::string& text, RotaryBase& rotary) {
  std::istringstream rest(text.substr(std::min(text.find(':'), text.size())));
  std::vector<double> numbers;
  char colon = 0;
  for (double number = 0; rest >> colon >> number;) numbers.push_back(number);
  const std::string kind = text.substr(0, text.find(':'));
  rotary.linear_factor = 1;
  rotary.llama3.reset();
  if (kind == "linear" && numbers.size() == 1) rotary.linear_factor = numbers[0];
  else if (kind == "llama3" && numbers.size() == 4)
    rotary.llama3 = Llama3Scaling{numbers[0], numbers[1], numbers[2], numbers[3]};
  else
    check(
        text == "none",
        "a rotary scaling of '{}': expected none, linear:FACTOR or llama3:FACTOR:LOW:HIGH:CONTEXT",
        text);
}

}  // namespace

std::vector<std::string> detail::text_model_names() {
  const auto names = published_models() | std::views::keys;
  return {names.begin(), names.end()};
}

TextModelOptions text_model(const std::string& name, const TextModelSizes& sizes) {
  const auto found = published_models().find(name);
  check(found != published_models().end(), "there is no language model {}: expected {}", name,
        fmt::join(text_model_names(), ", "));
  TextModelOptions options = found->second;
  std::visit(
      [&]<class Options>(Options& o) {
        const int64_t width = o.width;
        o.layers = sizes.layers.value_or(o.layers);
        o.width = sizes.width.value_or(width);
        o.context = sizes.positions.value_or(o.context);
        o.is_tied = sizes.is_tied.value_or(o.is_tied);
        if constexpr (std::is_same_v<Options, LlamaOptions>) {
          o.groups = sizes.groups.value_or(sizes.heads.value_or(o.groups));
          // Keeps the proportion to the width, rounded up to whole vectors.
          o.hidden = sizes.hidden.value_or((o.hidden * o.width / width + 7) / 8 * 8);
          o.head_size = sizes.head_size.value_or(o.head_size);
          o.norm_eps = sizes.norm_eps.value_or(o.norm_eps);
          o.rotary.base = sizes.rotary_base.value_or(o.rotary.base);
          if (!sizes.rotary_scaling.empty()) read_scaling(sizes.rotary_scaling, o.rotary);
          o.has_bias = sizes.has_bias.value_or(o.has_bias);
        }
        o.heads = sizes.heads.value_or(o.heads);
      },
      options);
  return options;
}

TextModelOptions detail::text_model_for(TextModelOptions options, int64_t vocabulary,
                                        int64_t context, double dropout) {
  std::visit(
      [&](auto& o) {
        o.vocabulary = vocabulary;
        o.context = std::max(o.context, context);
      },
      options);
  if (auto* gpt2 = std::get_if<Gpt2Options>(&options)) {
    gpt2->dropout = dropout;
  } else {
    check(dropout == 0, "Llama has no dropout: expected a dropout of 0");
  }
  return options;
}

std::unique_ptr<LanguageModel> make_text_model(const TextModelOptions& options,
                                               const LoraOptions& lora, const BasePtr& base) {
  std::unique_ptr<LanguageModel> model;
  if (const auto* gpt2 = std::get_if<Gpt2Options>(&options)) model = std::make_unique<Gpt2>(*gpt2);
  else model = std::make_unique<Llama>(std::get<LlamaOptions>(options));
  if (base) take_from(base, *model);
  if (lora.rank) add_lora(*model, lora);
  return model;
}

}  // namespace accrue
