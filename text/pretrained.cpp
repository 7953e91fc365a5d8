#include "text/pretrained.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "data/strict_json.h"
#include "train/weights.h"

namespace accrue {
namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

std::string content_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  check(in.good() && !text.str().empty(), "{}: cannot be read", file.string());
  return text.str();
}

Json read_json(const std::filesystem::path& file) {
  constexpr int most_levels = 16;
  constexpr int64_t most_elements = 1 << 16;
  return parse_strict_json(content_of(file), most_levels, file.string(), most_elements);
}

// The fields of a config.json.
class Config {
 public:
  explicit Config(const std::filesystem::path& file)
      : file_(file.string()), json_(read_json(file)) {
    check(json_.is_object(), "{}: expected an object", file_);
  }

  bool has(const char* name) const { return !(*this)[name].is_null(); }
  // Null if there is none.
  const Json& operator[](const char* name) const {
    static const Json none;
    const auto found = json_.find(name);
    return found == json_.end() ? none : *found;
  }

  int64_t count(const char* name, std::optional<int64_t> otherwise = {}) const {
    if (!has(name) && otherwise) return *otherwise;
    check(has(name) && json_[name].is_number_integer() && json_[name] > 0,
          "{}: expected a whole number above 0 as {}", file_, name);
    return json_[name];
  }
  double number(const Json& in, const char* name, double otherwise) const {
    if (!in.contains(name) || in[name].is_null()) return otherwise;
    check(in[name].is_number() && in[name] > 0, "{}: expected a number above 0 as {}", file_, name);
    return in[name];
  }
  double number(const char* name, double otherwise) const { return number(json_, name, otherwise); }
  bool flag(const char* name, bool otherwise) const {
    if (!has(name)) return otherwise;
    check(json_[name].is_boolean(), "{}: expected true or false as {}", file_, name);
    return json_[name];
  }
  std::string word(const Json& in, const char* name, std::string otherwise) const {
    if (!in.contains(name) || in[name].is_null()) return otherwise;
    check(in[name].is_string(), "{}: expected a text as {}", file_, name);
    return in[name];
  }
  std::string word(const char* name, std::string otherwise) const {
    return word(json_, name, std::move(otherwise));
  }
  // Throws Error unless a field has one of these values, or is not there.
  void require(const char* name, const std::set<std::string>& values) const {
    const std::string value = word(name, *values.begin());
    check(values.contains(value), "{}: {} is {}, expected {}", file_, name, value,
          fmt::join(values, " or "));
  }
  void require_false(const char* name) const {
    check(!flag(name, false), "{}: {} is true, which this program does not have", file_, name);
  }
  const std::string& file() const { return file_; }

 private:
  std::string file_;
  Json json_;
};

PretrainedModel gpt2_of(const Config& config) {
  config.require("activation_function", {"gelu_new", "gelu_pytorch_tanh"});
  config.require_false("scale_attn_by_inverse_layer_idx");
  check(config.number("layer_norm_epsilon", 1e-5) == 1e-5,
        "{}: layer_norm_epsilon is {}, expected 1e-05", config.file(),
        config.number("layer_norm_epsilon", 0));
  const int64_t width = config.count("n_embd", 768), positions = config.count("n_positions", 1024);
  check(config.count("n_inner", 4 * width) == 4 * width, "{}: n_inner is {}, expected {}",
        config.file(), config.count("n_inner", 0), 4 * width);
  return {.name = "gpt2",
          .sizes = {.layers = config.count("n_layer", 12),
                    .heads = config.count("n_head", 12),
                    .width = width,
                    .positions = positions},
          .vocabulary = config.count("vocab_size", 50257),
          .context = positions};
}

// transformers 5 has one object for base and scaling; before, two fields.
std::string rotary_scaling_of(const Config& config, const Json& said) {
  const std::string kind = config.word(said, "rope_type", config.word(said, "type", "default"));
  if (kind == "default") return "none";
  const double factor = config.number(said, "factor", 1);
  if (kind == "linear") return fmt::format("linear:{}", factor);
  check(kind == "llama3", "{}: rotations are scaled by '{}', expected default, linear or llama3",
        config.file(), kind);
  return fmt::format("llama3:{}:{}:{}:{}", factor, config.number(said, "low_freq_factor", 1),
                     config.number(said, "high_freq_factor", 4),
                     config.number(said, "original_max_position_embeddings", 8192));
}

PretrainedModel llama_of(const Config& config, bool is_qwen) {
  config.require("hidden_act", {"silu"});
  for (const char* absent : {"attention_bias", "mlp_bias", "use_sliding_window"})
    config.require_false(absent);
  const Json nothing = Json::object();
  const Json& rotary = config.has("rope_parameters") ? config["rope_parameters"]
                       : config.has("rope_scaling")  ? config["rope_scaling"]
                                                     : nothing;
  const int64_t heads = config.count("num_attention_heads"), width = config.count("hidden_size");
  return {.name = "tinyllama",
          .sizes = {.layers = config.count("num_hidden_layers"),
                    .heads = heads,
                    .width = width,
                    .groups = config.count("num_key_value_heads", heads),
                    .hidden = config.count("intermediate_size"),
                    .head_size = config.count("head_dim", width / heads),
                    .norm_eps = config.number("rms_norm_eps", 1e-6),
                    .rotary_base =
                        config.number(rotary, "rope_theta", config.number("rope_theta", 10000)),
                    .rotary_scaling = rotary_scaling_of(config, rotary),
                    .is_tied = config.flag("tie_word_embeddings", false),
                    .has_bias = is_qwen},
          .vocabulary = config.count("vocab_size"),
          .context = config.count("max_position_embeddings", 2048)};
}

constexpr std::string_view peft_prefix = "base_model.model.";

LoraOptions lora_of(const Config& config) {
  config.require("peft_type", {"LORA"});
  config.require("bias", {"none"});
  for (const char* absent : {"use_dora", "lora_bias", "use_qalora"}) config.require_false(absent);
  for (const char* absent : {"rank_pattern", "alpha_pattern", "layers_to_transform",
                             "modules_to_save", "exclude_modules", "target_parameters"})
    check(!config.has(absent) || config[absent].empty(),
          "{}: {} is {}, which this program does not have", config.file(), absent,
          config[absent].dump());
  LoraOptions o{.rank = config.count("r"),
                .alpha = config.number("lora_alpha", 8),
                .rank_stabilized = config.flag("use_rslora", false)};
  const Json none = Json::array(), &dropout = config["lora_dropout"];
  check(!config.has("lora_dropout") || (dropout.is_number() && dropout >= 0 && dropout < 1),
        "{}: expected a number in [0, 1) as lora_dropout", config.file());
  if (config.has("lora_dropout") && dropout > 0) o.dropout = dropout.get<double>();
  const Json& targets = config.has("target_modules") ? config["target_modules"] : none;
  if (targets == "all-linear") o.targets = {"all"};
  else
    check(targets.is_array() &&
              std::ranges::all_of(targets, [](const Json& t) { return t.is_string(); }),
          "{}: expected names of layers or all-linear as target_modules, not {}", config.file(),
          targets.dump());
  if (targets.is_array()) o.targets = targets.get<std::vector<std::string>>();
  return o;
}

// The files of a model's weights.
std::set<std::filesystem::path> weights_in(const std::filesystem::path& directory) {
  const auto one = directory / "model.safetensors",
             index = directory / "model.safetensors.index.json";
  std::error_code ignored;
  if (std::filesystem::exists(one, ignored)) return {one};
  check(std::filesystem::exists(index, ignored),
        "{}: expected model.safetensors or model.safetensors.index.json in it", directory.string());
  const Json json = read_json(index);
  check(json.is_object() && json.contains("weight_map") && json["weight_map"].is_object(),
        "{}: expected an object with a weight_map", index.string());
  std::set<std::filesystem::path> files;
  for (const auto& [name, file] : json["weight_map"].items()) {
    const std::filesystem::path path = file.is_string() ? file.get<std::string>() : "";
    check(!path.empty() && path == path.filename(), "{}: expected the name of a file for {}",
          index.string(), name);
    files.insert(directory / path);
  }
  return files;
}

}  // namespace

PretrainedModel read_pretrained_config(const std::filesystem::path& directory) {
  const Config config(directory / "config.json");
  const std::string type = config.word("model_type", "nothing");
  if (type == "gpt2") return gpt2_of(config);
  check(type == "llama" || type == "qwen2", "{}: model_type is {}, expected gpt2, llama or qwen2",
        config.file(), type);
  return llama_of(config, type == "qwen2");
}

NamedTensors read_pretrained_weights(const std::filesystem::path& directory,
                                     const PretrainedModel& model) {
  const bool is_gpt2 = model.name == "gpt2", is_tied = is_gpt2 || *model.sizes.is_tied;
  const auto wanted = [&](const std::string& name) {
    if (is_tied && name == "lm_head.weight") return false;
    if (name.ends_with(".rotary_emb.inv_freq")) return false;
    return is_weight(name);
  };
  NamedTensors all;
  for (const auto& file : weights_in(directory))
    for (auto& [name, tensor] : read_safetensors(file, Category::parameters, nullptr, wanted)) {
      const bool lacks_word = is_gpt2 && !name.starts_with("transformer.");
      all.emplace_back((lacks_word ? "transformer." : "") + name, std::move(tensor));
    }
  return all;
}

std::string pretrained_config(const TextModelOptions& model, DType dtype, int32_t end_of_text) {
  OrderedJson json;
  const std::string type = dtype == DType::bf16  ? "bfloat16"
                           : dtype == DType::f16 ? "float16"
                                                 : "float32";
  if (const auto* gpt2 = std::get_if<Gpt2Options>(&model)) {
    json = {{"architectures", {"GPT2LMHeadModel"}},
            {"model_type", "gpt2"},
            {"vocab_size", gpt2->vocabulary},
            {"n_positions", gpt2->context},
            {"n_embd", gpt2->width},
            {"n_layer", gpt2->layers},
            {"n_head", gpt2->heads},
            {"activation_function", "gelu_new"},
            {"layer_norm_epsilon", 1e-5},
            {"tie_word_embeddings", true}};
  } else {
    const auto& o = std::get<LlamaOptions>(model);
    const int64_t head_size = o.head_size > 0 ? o.head_size : o.width / o.heads;
    json = {{"architectures", {o.has_bias ? "Qwen2ForCausalLM" : "LlamaForCausalLM"}},
            {"model_type", o.has_bias ? "qwen2" : "llama"},
            {"vocab_size", o.vocabulary},
            {"max_position_embeddings", o.context},
            {"hidden_size", o.width},
            {"intermediate_size", o.hidden},
            {"num_hidden_layers", o.layers},
            {"num_attention_heads", o.heads},
            {"num_key_value_heads", o.groups},
            {"head_dim", head_size},
            {"hidden_act", "silu"},
            {"rms_norm_eps", o.norm_eps},
            {"rope_theta", o.rotary.base},
            {"tie_word_embeddings", o.is_tied}};
    if (const auto& scaling = o.rotary.llama3)
      json["rope_scaling"] = {
          {"rope_type", "llama3"},
          {"factor", scaling->factor},
          {"low_freq_factor", scaling->low_freq_factor},
          {"high_freq_factor", scaling->high_freq_factor},
          {"original_max_position_embeddings", int64_t(scaling->original_max_position_embeddings)}};
    else if (o.rotary.linear_factor != 1)
      json["rope_scaling"] = {{"rope_type", "linear"}, {"factor", o.rotary.linear_factor}};
  }
  json["bos_token_id"] = json["eos_token_id"] = end_of_text;
  json["torch_dtype"] = type;
  return json.dump(2) + "\n";
}

PretrainedAdapters read_pretrained_adapters(const std::filesystem::path& directory) {
  PretrainedAdapters found{.options = lora_of(Config(directory / "adapter_config.json"))};
  const auto file = directory / "adapter_model.safetensors";
  for (auto& [name, tensor] : read_safetensors(file)) {
    check(name.starts_with(peft_prefix) && is_of_adapter(name),
          "{}: {} is not of an adapter: expected {}....lora_A.weight or lora_B.weight",
          file.string(), name, peft_prefix);
    found.weights.emplace_back(name.substr(peft_prefix.size()), std::move(tensor));
  }
  return found;
}

std::string pretrained_adapter_config(const TextModelOptions& model, const LoraOptions& lora,
                                      const std::string& base) {
  OrderedJson json{{"peft_type", "LORA"},
                   {"task_type", "CAUSAL_LM"},
                   {"base_model_name_or_path", nullptr},
                   {"r", *lora.rank},
                   {"lora_alpha", lora.chosen_alpha()},
                   {"lora_dropout", lora.dropout.value_or(0)},
                   {"use_rslora", lora.rank_stabilized.value_or(false)},
                   {"target_modules", lora_targets(*make_text_model(model), lora)},
                   {"bias", "none"},
                   {"fan_in_fan_out", std::holds_alternative<Gpt2Options>(model)},
                   {"inference_mode", true}};
  if (!base.empty()) json["base_model_name_or_path"] = base;
  return json.dump(2) + "\n";
}

NamedTensors as_pretrained_adapters(const NamedTensors& weights) {
  NamedTensors adapters;
  for (const auto& [name, tensor] : weights)
    if (is_of_adapter(name)) adapters.emplace_back(std::string(peft_prefix) + name, tensor);
  return adapters;
}

}  // namespace accrue
