#include "text/gguf_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "kernels/rotary.h"
#include "text/config_file.h"

namespace accrue {
namespace {

struct NamePair {
  std::string_view here, there;
};
// The names lack "weight" or "bias" at their end.
constexpr NamePair whole_names[]{{"model.embed_tokens", "token_embd"},
                                 {"model.norm", "output_norm"},
                                 {"lm_head", "output"},
                                 {"transformer.wte", "token_embd"},
                                 {"transformer.wpe", "position_embd"},
                                 {"transformer.ln_f", "output_norm"}};
// Names within a layer, which follow the layer's number.
constexpr std::array<NamePair, 9> layer_names{{{"self_attn.q_proj", "attn_q"},
                                               {"self_attn.k_proj", "attn_k"},
                                               {"self_attn.v_proj", "attn_v"},
                                               {"self_attn.o_proj", "attn_output"},
                                               {"mlp.gate_proj", "ffn_gate"},
                                               {"mlp.up_proj", "ffn_up"},
                                               {"mlp.down_proj", "ffn_down"},
                                               {"input_layernorm", "attn_norm"},
                                               {"post_attention_layernorm", "ffn_norm"}}};
constexpr NamePair gpt2_layer_names[]{{"ln_1", "attn_norm"},          {"attn.c_attn", "attn_qkv"},
                                      {"attn.c_proj", "attn_output"}, {"ln_2", "ffn_norm"},
                                      {"mlp.c_fc", "ffn_up"},         {"mlp.c_proj", "ffn_down"}};

// The name in the file for a name here; empty if there is none.
std::string_view name_there(std::span<const NamePair> names, std::string_view here) {
  const auto found = std::ranges::find(names, here, &NamePair::here);
  return found == names.end() ? std::string_view() : found->there;
}

constexpr const char* frequencies_name = "rope_freqs.weight";

// The value of a key, in the form that tables of keys judge.
nlohmann::json value_of(const GgufFile& file, std::string_view key) {
  const auto value = file.any(key);
  if (!value) return "an array";
  return std::visit([](auto x) { return nlohmann::json(x); }, *value);
}

// The keys of a file's architecture.
class GgufConfig {
 public:
  explicit GgufConfig(const GgufFile& file)
      : file_(file), architecture_(file.required_text("general.architecture")) {
    check(architecture_ == "llama" || is_qwen(),
          "'{}' holds a model of architecture '{}', expected llama or qwen2", path(),
          architecture_);
  }

  bool is_qwen() const { return architecture_ == "qwen2"; }
  std::string path() const { return file_.path().string(); }
  // The full name of a key that the table says is read.
  std::string key(std::string_view name) const {
    gguf_architecture_keys().check_is_read(name);
    return fmt::format("{}.{}", architecture_, name);
  }

  int64_t count(std::string_view name, std::optional<int64_t> otherwise = {}) const {
    const std::string full = key(name);
    const auto found = file_.integer(full);
    const int64_t value = !found && otherwise ? *otherwise : file_.required_integer(full);
    check(value > 0 && value <= INT32_MAX,
          "'{}': {} is {}, expected a whole number above 0 and below 2^31", path(), full, value);
    return value;
  }
  double number(std::string_view name, std::optional<double> otherwise = {}) const {
    const std::string full = key(name);
    const auto found = file_.number(full);
    const double value = !found && otherwise ? *otherwise : file_.required_number(full);
    check(std::isfinite(value) && value > 0, "'{}': {} is {}, expected a number above 0", path(),
          full, value);
    // Returns the short decimal, such as 1e-5, that the float32 value stands for.
    const auto narrow = static_cast<float>(value);
    return narrow == value ? std::stod(fmt::format("{}", narrow)) : value;
  }
  // Throws Error for keys that are refused. Returns warnings about unknown keys.
  std::vector<std::string> judge_keys() const {
    std::vector<std::string> warnings;
    const std::string prefix = architecture_ + ".";
    for (const std::string_view full : file_.keys()) {
      const nlohmann::json value = value_of(file_, full);
      const std::string where = fmt::format("'{}': ", path());
      if (full.starts_with(prefix))
        gguf_architecture_keys().judge(where + prefix, full.substr(prefix.size()), value);
      else if (std::string warning = gguf_other_keys().judge(where, full, value); !warning.empty())
        warnings.push_back(std::move(warning));
    }
    return warnings;
  }

  int64_t heads() const { return count("attention.head_count"); }
  int64_t groups() const { return count("attention.head_count_kv", heads()); }
  int64_t head_size() const {
    const int64_t size = count("attention.key_length", count("embedding_length") / heads());
    for (const char* const name : {"attention.value_length", "rope.dimension_count"}) {
      const int64_t other = count(name, size);
      check(other == size, "'{}': {} is {}, expected {}, the size of a head of keys", path(),
            key(name), other, size);
    }
    return size;
  }
  double rotary_base() const { return number("rope.freq_base", 10000); }
  // In the format of TextModelSizes.
  std::string rotary_scaling() const;

 private:
  std::string llama3_scaling(const GgufTensor& divisors) const;

  const GgufFile& file_;
  std::string architecture_;
};

std::string GgufConfig::rotary_scaling() const {
  const GgufTensor* const divisors = file_.find_tensor(frequencies_name);
  const double factor = number("rope.scaling.factor", number("rope.scale_linear", 1));
  const std::string kind(
      file_.text(key("rope.scaling.type")).value_or(factor == 1 ? "none" : "linear"));
  check(kind == "none" || kind == "linear",
        "'{}': {} is '{}', expected none or linear; rotations of other kinds are not supported",
        path(), key("rope.scaling.type"), kind);
  if (kind == "linear" && factor != 1) {
    check(!divisors, "'{}' has both {} and the tensor '{}', expected one of them", path(),
          key("rope.scaling.factor"), frequencies_name);
    return fmt::format("linear:{}", factor);
  }
  return divisors ? llama3_scaling(*divisors) : "none";
}

// The file does not have the four parameters of Llama 3's scaling, only the divisors of frequencies
// that are computed from them. Three of the parameters are the same in all models of this kind.
std::string GgufConfig::llama3_scaling(const GgufTensor& divisors) const {
  const auto base = rotary_frequencies(head_size(), rotary_base());
  check(divisors.type == DType::f32 && divisors.shape == Shape{std::ssize(base)},
        "'{}': the tensor '{}' is {} {}, expected F32 [{}]", path(), frequencies_name,
        name(divisors.type), divisors.shape, base.size());
  std::vector<float> divided_by(base.size());
  std::memcpy(divided_by.data(), divisors.elements.data(), divisors.elements.size());
  const Llama3Scaling scaling{.factor = std::ranges::max(divided_by)};
  check(std::isfinite(scaling.factor) && scaling.factor > 0,
        "'{}': the tensor '{}' has the divisor {}", path(), frequencies_name, scaling.factor);
  const auto scaled = scale_as_llama3(base, scaling);
  for (size_t i = 0; i < base.size(); ++i) {
    // The converter computes in double or float32, and stores float32.
    const double expected = base[i] / scaled[i];
    check(std::abs(divided_by[i] - expected) <= 1e-5 * expected,
          "'{}': the tensor '{}' divides frequency {} by {}, expected {}, as Llama 3 scales "
          "rotations",
          path(), frequencies_name, i, divided_by[i], expected);
  }
  if (scaling.factor == 1) return "none";
  return fmt::format("llama3:{}:{}:{}:{}", scaling.factor, scaling.low_freq_factor,
                     scaling.high_freq_factor, scaling.original_max_position_embeddings);
}

// Throws Error unless the file has exactly the tensors of this model.
void check_tensors(const GgufFile& file, int64_t layers, bool has_bias) {
  check(layers <= std::ssize(file.tensors()), "'{}' has {}, too few for {} layers",
        file.path().string(), counted(std::ssize(file.tensors()), "tensor"), layers);
  std::set<std::string> expected{"token_embd.weight", "output_norm.weight"};
  for (int64_t i = 0; i < layers; ++i)
    for (const auto& [here, there] : layer_names) {
      expected.insert(fmt::format("blk.{}.{}.weight", i, there));
      const bool is_biased = there == "attn_q" || there == "attn_k" || there == "attn_v";
      if (has_bias && is_biased) expected.insert(fmt::format("blk.{}.{}.bias", i, there));
    }
  for (const GgufTensor& tensor : file.tensors()) {
    const bool is_optional = tensor.name == "output.weight" || tensor.name == frequencies_name;
    check(expected.erase(tensor.name) == 1 || is_optional,
          "'{}' has the tensor '{}', which accrue's models do not have", file.path().string(),
          tensor.name);
  }
  check(expected.empty(), "'{}' lacks the tensor '{}'", file.path().string(),
        expected.empty() ? "" : *expected.begin());
}

}  // namespace

std::string detail::gguf_name(std::string_view parameter) {
  const size_t last = std::min(parameter.rfind('.'), parameter.size());
  const std::string_view of = parameter.substr(0, last), end = parameter.substr(last);
  if (const auto there = name_there(whole_names, of); !there.empty())
    return fmt::format("{}{}", there, end);
  using Names = std::span<const NamePair>;
  for (const auto& [prefix, names] :
       {std::pair<std::string_view, Names>("model.layers.", layer_names),
        {"transformer.h.", gpt2_layer_names}}) {
    if (!of.starts_with(prefix)) continue;
    const std::string_view rest = of.substr(prefix.size());
    const size_t number = std::min(rest.find('.'), rest.size());
    const auto there = name_there(names, rest.substr(std::min(number + 1, rest.size())));
    if (!there.empty()) return fmt::format("blk.{}.{}{}", rest.substr(0, number), there, end);
  }
  fail("'{}' is no parameter of a GPT-2 or a Llama", parameter);
}

PretrainedModel detail::read_gguf_config(const GgufFile& file) {
  const GgufConfig config(file);
  const int64_t parts = file.integer("split.count").value_or(1);
  check(parts <= 1, "'{}' is one of {} files of a model: expected one file", config.path(), parts);
  std::vector<std::string> warnings = config.judge_keys();
  const GgufTensor& embedding = file.tensor("token_embd.weight");
  check(embedding.shape.rank() == 2, "'{}': the tensor '{}' is {}, expected a matrix",
        config.path(), embedding.name, embedding.shape);
  const int64_t vocabulary = config.count("vocab_size", embedding.shape[0]);
  const int64_t layers = config.count("block_count");
  const bool has_bias = file.find_tensor("blk.0.attn_q.bias") != nullptr;
  check_tensors(file, layers, has_bias);
  const int64_t context = config.count("context_length", 2048);
  return {.name = "tinyllama",
          .sizes = {.layers = layers,
                    .heads = config.heads(),
                    .width = config.count("embedding_length"),
                    .positions = context,
                    .groups = config.groups(),
                    .hidden = config.count("feed_forward_length"),
                    .head_size = config.head_size(),
                    .norm_eps = config.number("attention.layer_norm_rms_epsilon"),
                    .rotary_base = config.rotary_base(),
                    .rotary_scaling = config.rotary_scaling(),
                    .is_tied = file.find_tensor("output.weight") == nullptr,
                    .has_bias = has_bias},
          .vocabulary = vocabulary,
          .context = context,
          .warnings = std::move(warnings)};
}

GgufParameter detail::find_gguf_parameter(const GgufFile& file, const std::string& name,
                                          const Shape& shape) {
  const GgufTensor& tensor = file.tensor(gguf_name(name));
  check(tensor.shape == shape, "'{}': the tensor '{}' is {}, expected {} as {} is",
        file.path().string(), tensor.name, tensor.shape, shape, name);
  const int64_t rows = shape[0], columns = shape.numel(1, shape.rank());
  const GgufConfig config(file);
  const bool is_query = name.find(".q_proj.") != std::string::npos;
  const bool is_key = name.find(".k_proj.") != std::string::npos;
  if (config.is_qwen() || !(is_query || is_key))
    return {&tensor, shape.rank() == 1 ? Shape{1, rows} : shape};
  const int64_t size = config.head_size(), heads = is_query ? config.heads() : config.groups();
  check(size % 2 == 0 && rows == heads * size,
        "'{}': the tensor '{}' has {} rows, expected {} heads of {}, an even number",
        file.path().string(), tensor.name, rows, heads, size);
  check(columns % block_elements(tensor.type) == 0,
        "'{}': the tensor '{}' is a vector of {}, expected F32, F16 or BF16", file.path().string(),
        tensor.name, accrue::name(tensor.type));
  return {&tensor, {heads, size / 2, 2, columns}};
}

}  // namespace accrue
