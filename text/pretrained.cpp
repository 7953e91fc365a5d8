#include "text/pretrained.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <sstream>

#include "data/strict_json.h"
#include "text/config_file.h"
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

Json parse_config(const std::string& text, const std::string& where) {
  constexpr int most_levels = 16;
  constexpr int64_t most_elements = 1 << 16;
  return parse_strict_json(text, most_levels, where, most_elements);
}

Json read_json(const std::filesystem::path& file) {
  return parse_config(content_of(file), file.string());
}

constexpr const char *config_name = "config.json", *generation_name = "generation_config.json";

PretrainedModel gpt2_of(const ConfigFile& config) {
  // transformers also accepts the names of other models, and they take precedence.
  const auto size = [&](const char* name, const char* other_name, int64_t otherwise) {
    const int64_t value = config.count(name, config.count(other_name, otherwise));
    check(config.count(other_name, value) == value, "{}: {} is {}, but {} is {}: expected the same",
          config.where(), name, value, other_name, config.count(other_name, value));
    return value;
  };
  const int64_t width = size("n_embd", "hidden_size", 768),
                positions = size("n_positions", "max_position_embeddings", 1024);
  check(config.count("n_inner", 4 * width) == 4 * width, "{}: n_inner is {}, expected {}",
        config.where(), config.count("n_inner", 4 * width), 4 * width);
  return {.name = "gpt2",
          .sizes = {.layers = size("n_layer", "num_hidden_layers", 12),
                    .heads = size("n_head", "num_attention_heads", 12),
                    .width = width,
                    .positions = positions,
                    .is_tied = config.flag("tie_word_embeddings", true)},
          .vocabulary = config.count("vocab_size", 50257),
          .context = positions};
}

// transformers 5 has one object for base and scaling. Earlier versions have two fields, which take
// precedence if both forms are present.
ConfigFile rotations_in(const ConfigFile& config) {
  for (const char* const name : {"rope_scaling", "rope_parameters"})
    if (config.has(name) && config[name] != Json::object())
      return {fmt::format("{}: {}", config.where(), name), config[name], rotary_keys()};
  return {config.where(), Json::object(), rotary_keys()};
}

std::string rotary_scaling_of(const ConfigFile& said, int64_t positions) {
  const std::string kind = said.word("rope_type", said.word("type", "default"));
  if (kind == "default") return "none";
  check(kind == "linear" || kind == "llama3",
        "{}: rotations are scaled by '{}', expected default, linear or llama3", said.where(), kind);
  if (kind == "linear") return fmt::format("linear:{}", said.number("factor"));
  return fmt::format("llama3:{}:{}:{}:{}", said.number("factor"), said.number("low_freq_factor"),
                     said.number("high_freq_factor"),
                     said.number("original_max_position_embeddings", double(positions)));
}

// Models that are computed like Llama, and transformers' defaults for them.
struct LlamaKind {
  std::string_view type;
  const KnownKeys& keys;
  int64_t positions;
  bool has_groups, has_window, has_bias = false;
};

const LlamaKind* llama_kind(std::string_view type) {
  static const std::array kinds{
      LlamaKind{"llama", llama_keys(), 2048, false, false},
      LlamaKind{"mistral", mistral_keys(), 131072, true, true},
      LlamaKind{"qwen2", qwen2_keys(), 32768, true, false, true},
  };
  const auto* const found = std::ranges::find(kinds, type, &LlamaKind::type);
  return found == kinds.end() ? nullptr : found;
}

PretrainedModel llama_of(const ConfigFile& config, const LlamaKind& kind) {
  const ConfigFile rotations = rotations_in(config);
  const int64_t heads = config.count("num_attention_heads"), width = config.count("hidden_size"),
                positions = config.count("max_position_embeddings", kind.positions);
  const Json& types = config["layer_types"];
  check(std::ranges::all_of(types, [](const Json& layer) { return layer == "full_attention"; }),
        "{}: layer_types is {}, expected full_attention alone", config.where(), types.dump());
  return {
      .name = "tinyllama",
      .sizes = {.layers = config.count("num_hidden_layers"),
                .heads = heads,
                .width = width,
                .positions = positions,
                .groups = config.count("num_key_value_heads",
                                       kind.has_groups ? std::nullopt : std::optional(heads)),
                .hidden = config.count("intermediate_size"),
                .head_size = config.count("head_dim", width / heads),
                .norm_eps = config.number("rms_norm_eps", 1e-6),
                .rotary_base = rotations.number("rope_theta", config.number("rope_theta", 10000)),
                .rotary_scaling = rotary_scaling_of(rotations, positions),
                .is_tied = config.flag("tie_word_embeddings", false),
                .has_bias = kind.has_bias},
      .vocabulary = config.count("vocab_size"),
      .context = positions};
}

// The model that the text of a config.json describes. `where` is the name of the text.
PretrainedModel model_in(const std::string& text, const std::string& where) {
  const Json json = parse_config(text, where);
  check(json.is_object(), "{}: expected an object", where);
  const auto type = json.find("model_type");
  const std::string name =
      type != json.end() && type->is_string() ? type->get<std::string>() : "nothing";
  const LlamaKind* const kind = llama_kind(name);
  check(kind != nullptr || name == "gpt2",
        "{}: model_type is {}, expected gpt2, llama, mistral or qwen2", where, name);
  check(kind == nullptr || !kind->has_window || json.contains("sliding_window"),
        "{}: expected null as sliding_window, because {} has a window by default", where, name);
  const ConfigFile config(where, json, kind != nullptr ? kind->keys : gpt2_keys());
  PretrainedModel model = kind != nullptr ? llama_of(config, *kind) : gpt2_of(config);
  const Json title = json.value("_name_or_path", Json());
  if (title.is_string())
    model.title = plain_title(std::filesystem::path(title.get<std::string>()).filename());
  model.warnings = config.warnings();
  model.files[config_name] = text;
  return model;
}

constexpr std::string_view peft_prefix = "base_model.model.";

LoraOptions lora_of(const ConfigFile& config) {
  LoraOptions o{.rank = config.count("r", 8),
                .alpha = config.number("lora_alpha", 8),
                .rank_stabilized = config.flag("use_rslora", false)};
  const Json none = Json::array(), &dropout = config["lora_dropout"];
  check(dropout.is_null() || (dropout.is_number() && dropout >= 0 && dropout < 1),
        "{}: expected a number in [0, 1) as lora_dropout", config.where());
  if (!dropout.is_null() && dropout > 0) o.dropout = dropout.get<double>();
  const Json& targets = config.has("target_modules") ? config["target_modules"] : none;
  if (targets == "all-linear") o.targets = {"all"};
  else
    check(targets.is_array() &&
              std::ranges::all_of(targets, [](const Json& t) { return t.is_string(); }),
          "{}: expected names of layers or all-linear as target_modules, not {}", config.where(),
          targets.dump());
  if (targets.is_array()) o.targets = targets.get<std::vector<std::string>>();
  return o;
}

// The files that contain the weights of a model.
std::set<std::filesystem::path> weights_in(const std::filesystem::path& directory) {
  const auto one = directory / "model.safetensors",
             index = directory / "model.safetensors.index.json";
  std::error_code ignored;
  if (std::filesystem::exists(one, ignored)) return {one};
  check(std::filesystem::exists(index, ignored),
        "{}: expected model.safetensors or model.safetensors.index.json in it{}",
        directory.string(),
        std::filesystem::exists(directory / "pytorch_model.bin", ignored)
            ? fmt::format(
                  ", which, of pytorch_model.bin, `python3 -c \"import transformers as t; "
                  "t.AutoModelForCausalLM.from_pretrained('{0}').save_pretrained('{0}')\"` writes",
                  directory.string())
            : "");
  const Json json = read_json(index);
  check(json.is_object() && json.contains("weight_map") && json["weight_map"].is_object(),
        "{}: expected an object with a weight_map", index.string());
  std::set<std::filesystem::path> files;
  for (const auto& [name, file] : json["weight_map"].items()) {
    const std::filesystem::path path = file.is_string() ? file.get<std::string>() : "";
    check(!path.empty() && path == path.filename(), "{}: expected the name of a file for {}",
          index.string(), name);
    check(std::filesystem::exists(directory / path, ignored),
          "'{}' has {} in '{}', which is not there: expected all files that it names",
          index.string(), name, path.string());
    files.insert(directory / path);
  }
  return files;
}

}  // namespace

PretrainedModel detail::read_pretrained_config(const std::filesystem::path& directory) {
  const auto file = directory / config_name, generation = directory / generation_name;
  std::error_code ignored;
  check(std::filesystem::exists(file, ignored),
        "'{}' holds no {}: expected a directory of "
        "transformers, with that and model.safetensors",
        directory.string(), config_name);
  PretrainedModel model = model_in(content_of(file), file.string());
  find_known_name(model);
  if (model.title.empty())
    model.title =
        plain_title(std::filesystem::absolute(file).lexically_normal().parent_path().filename());
  if (!std::filesystem::exists(generation, ignored)) return model;
  const std::string text = content_of(generation), where = generation.string();
  std::ranges::copy(ConfigFile(where, parse_config(text, where), generation_keys()).warnings(),
                    std::back_inserter(model.warnings));
  model.files[generation_name] = text;
  return model;
}

namespace {

constexpr const char* head_name = "lm_head.weight";

// Removes the head of a model whose head is the embedding: transformers omits it, or stores it
// twice.
void take_tied_head(const std::filesystem::path& directory, NamedTensors& all) {
  const auto head = std::ranges::find(all, head_name, &NamedTensors::value_type::first);
  if (head == all.end()) return;
  const auto embedding = std::ranges::find_if(all, [](const auto& named) {
    return named.first.ends_with("wte.weight") || named.first.ends_with("embed_tokens.weight");
  });
  const auto bytes_in = [](const Tensor& x) {
    const auto* const bytes = static_cast<const std::byte*>(x.view().data);
    return std::span(bytes, bytes_of(x.dtype(), x.numel()));
  };
  check(embedding == all.end() ||
            (head->second.dtype() == embedding->second.dtype() &&
             std::ranges::equal(bytes_in(head->second), bytes_in(embedding->second))),
        "{}: {} differs from the embedding, but config.json says that it is the embedding: "
        "expected tie_word_embeddings false there, or weights without {}",
        directory.string(), head_name, head_name);
  all.erase(head);
}

}  // namespace

NamedTensors detail::read_pretrained_weights(const std::filesystem::path& directory,
                                             const PretrainedModel& model) {
  const bool is_gpt2 = std::holds_alternative<Gpt2Options>(text_model(model.name));
  const auto wanted = [&](const std::string& name) {
    return !name.ends_with(".rotary_emb.inv_freq") && is_weight(name);
  };
  NamedTensors all;
  for (const auto& file : weights_in(directory))
    for (auto& [name, tensor] : read_safetensors(file, Category::parameters, nullptr, wanted)) {
      const bool lacks_word = is_gpt2 && name != head_name && !name.starts_with("transformer.");
      all.emplace_back((lacks_word ? "transformer." : "") + name, std::move(tensor));
    }
  if (*model.sizes.is_tied) take_tied_head(directory, all);
  return all;
}

namespace {

const char* name_of_type(DType dtype) {
  switch (dtype) {
    case DType::bf16: return "bfloat16";
    case DType::f16: return "float16";
    case DType::f64: return "float64";
    default: return "float32";
  }
}

OrderedJson id_or_null(std::optional<int64_t> id) {
  return id ? OrderedJson(*id) : OrderedJson(nullptr);
}

}  // namespace

std::string detail::pretrained_config(const TextModelOptions& model, DType dtype,
                                      const TextEnds& ends) {
  OrderedJson json;
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
            {"tie_word_embeddings", gpt2->is_tied}};
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
  json["bos_token_id"] = id_or_null(ends.begin);
  json["eos_token_id"] = id_or_null(ends.end);
  json["torch_dtype"] = name_of_type(dtype);
  return json.dump(2) + "\n";
}

std::string detail::plain_title(const std::string& words) {
  std::string title;
  for (const char c : words) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) || c == '.') title += static_cast<char>(std::tolower(byte));
    else if (!title.empty() && title.back() != '-') title += '-';
  }
  while (!title.empty() && (title.back() == '-' || title.back() == '.')) title.pop_back();
  return title;
}

bool detail::have_same_sizes(TextModelOptions a, TextModelOptions b) {
  for (TextModelOptions* model : {&a, &b})
    std::visit(
        [](auto& o) {
          o.vocabulary = 1;
          if (std::is_same_v<decltype(o), LlamaOptions&>) o.context = 1;
        },
        *model);
  return pretrained_config(a, DType::f32) == pretrained_config(b, DType::f32);
}

void detail::find_known_name(PretrainedModel& model) {
  const TextModelOptions here = text_model(model.name, model.sizes);
  for (const std::string& name : text_model_names())
    if (have_same_sizes(text_model(name), here)) model.name = name;
}

namespace {

// True if the model is still the imported one. Training changes none of its sizes, but a Llama may
// have learned from longer rows than it was made for.
bool describes(const PretrainedModel& imported, TextModelOptions model) {
  const TextModelOptions there =
      text_model_for(text_model(imported.name, imported.sizes), imported.vocabulary, 1);
  if (auto* const llama = std::get_if<LlamaOptions>(&model)) llama->context = imported.context;
  return pretrained_config(there, DType::f32, {}) == pretrained_config(model, DType::f32, {});
}

}  // namespace

Metadata detail::pretrained_files(const TextModelOptions& model, DType dtype, const TextEnds& ends,
                                  const Metadata& imported) {
  Metadata files = imported;
  files.erase(gguf_general_name);
  const auto config = files.find(config_name);
  if (config == files.end() || !describes(model_in(config->second, config_name), model)) {
    files[config_name] = pretrained_config(model, dtype, ends);
    return files;
  }
  OrderedJson json = parse_own_json(config->second);
  const bool has_new_name = json.contains("dtype");
  if (has_new_name) json["dtype"] = name_of_type(dtype);
  if (!has_new_name || json.contains("torch_dtype")) json["torch_dtype"] = name_of_type(dtype);
  config->second = json.dump(2) + "\n";
  return files;
}

PretrainedAdapters detail::read_pretrained_adapters(const std::filesystem::path& directory) {
  const auto config = directory / "adapter_config.json";
  PretrainedAdapters found{
      .options = lora_of(ConfigFile(config.string(), read_json(config), lora_keys()))};
  const auto file = directory / "adapter_model.safetensors";
  for (auto& [name, tensor] : read_safetensors(file)) {
    check(name.starts_with(peft_prefix) && is_of_adapter(name),
          "{}: {} is not of an adapter: expected {}....lora_A.weight or lora_B.weight",
          file.string(), name, peft_prefix);
    found.weights.emplace_back(name.substr(peft_prefix.size()), std::move(tensor));
  }
  return found;
}

std::string detail::pretrained_adapter_config(const TextModelOptions& model,
                                              const LoraOptions& lora, const std::string& base) {
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

NamedTensors detail::as_pretrained_adapters(const NamedTensors& weights) {
  NamedTensors adapters;
  for (const auto& [name, tensor] : weights)
    if (is_of_adapter(name)) adapters.emplace_back(std::string(peft_prefix) + name, tensor);
  return adapters;
}

}  // namespace accrue
