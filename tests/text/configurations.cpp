// Each key of a configuration takes effect, changes nothing, or is refused by name. An export
// writes the keys that an import read.

#include <algorithm>

#include "tests/support/catch.h"
#include "tests/support/cli.h"
#include "text/config_file.h"
#include "text/models.h"
#include "text/pretrained.h"

namespace accrue::test {
namespace configurations {
namespace {

using nlohmann::json;

// A model of 257 tokens.
json llama_config() {
  return {{"model_type", "llama"},    {"vocab_size", 257},
          {"hidden_size", 8},         {"intermediate_size", 16},
          {"num_hidden_layers", 1},   {"num_attention_heads", 2},
          {"num_key_value_heads", 1}, {"max_position_embeddings", 4096},
          {"rms_norm_eps", 1e-5},     {"rope_theta", 20000.5}};
}

json gpt2_config() {
  return {{"model_type", "gpt2"}, {"vocab_size", 257}, {"n_positions", 16},
          {"n_embd", 8},          {"n_layer", 1},      {"n_head", 2}};
}

PretrainedModel read(const Folder& folder, const json& config) {
  folder.write("config.json", config.dump());
  return read_pretrained_config(folder.path());
}

json with(json config, const std::string& key, const json& value) {
  config[key] = value;
  return config;
}

// Writes a directory in transformers' form with random weights for a configuration.
void write_model(const Folder& folder, const std::string& name, const json& config,
                 const json& generation = {}) {
  folder.write(name + "/config.json", config.dump());
  if (!generation.is_null()) folder.write(name + "/generation_config.json", generation.dump());
  const PretrainedModel found = read_pretrained_config(folder.path() / name);
  const auto model =
      make_text_model(text_model_for(text_model(found.name, found.sizes), found.vocabulary, 1));
  write_safetensors(
      folder.path() / name / "model.safetensors",
      named_tensors(place(*model, DType::f32, Device::cpu, 1, GradientStorage::on_demand)));
}

// The options of a run over a few texts, which it writes.
std::string short_run(const Folder& folder) {
  folder.write("texts.jsonl", "{\"text\": \"one\"}\n{\"text\": \"two\"}\n{\"text\": \"three\"}\n");
  succeed(fmt::format("text prepare --hold-out 0.34 --text {} --out {}", folder / "texts.jsonl",
                      folder / "corpus"));
  return " --micro-batch 1 --effective-batch 1 --steps 1 --data " + (folder / "corpus") + " ";
}

json read_json(const std::string& path) { return json::parse(std::ifstream(path)); }

}  // namespace

TEST_CASE("a key that is not known is warned of, and one that asks for something else refused",
          "[text]") {
  const Folder folder;
  REQUIRE(read(folder, llama_config()).warnings.empty());
  // transformers does not read such keys, either. null asks for nothing.
  const auto warned = read(folder, with(llama_config(), "logits_scaling", 8)).warnings;
  REQUIRE(warned.size() == 1);
  REQUIRE_THAT(warned.front(), ContainsSubstring("config.json: logits_scaling is 8, which is not"));
  REQUIRE(read(folder, with(llama_config(), "logits_scaling", nullptr)).warnings.empty());
  REQUIRE(read(folder, with(llama_config(), "use_cache", false)).warnings.empty());

  const auto refuse_key = [&](const json& config, const std::string& part) {
    REQUIRE_ERROR(read(folder, config), part);
  };
  refuse_key(with(gpt2_config(), "scale_attn_weights", false),
             "scale_attn_weights is false, expected true");
  // Python takes null for false.
  refuse_key(with(gpt2_config(), "scale_attn_weights", nullptr), "scale_attn_weights is null");
  refuse_key(with(gpt2_config(), "scale_attn_by_inverse_layer_idx", true), "expected false");
  refuse_key(with(gpt2_config(), "layer_norm_epsilon", 1e-6), "expected 1e-05");
  refuse_key(with(gpt2_config(), "add_cross_attention", true), "add_cross_attention is true");
  refuse_key(with(gpt2_config(), "hidden_size", 16), "n_embd is 8, but hidden_size is 16");
  refuse_key(with(llama_config(), "quantization_config", {{"quant_method", "awq"}}),
             "expected nothing");
  refuse_key(with(llama_config(), "layer_types", {"full_attention", "sliding_attention"}),
             "layer_types is");
  refuse_key(with(llama_config(), "per_layer_config", {{"0", {{"hidden_act", "relu"}}}}),
             "per_layer_config is");
  refuse_key(with(llama_config(), "rope_scaling", {{"rope_type", "linear"}}), "as factor");
  refuse_key(with(llama_config(), "rope_parameters", {{"full_attention", {{"rope_theta", 1.0}}}}),
             "rope_parameters: full_attention is");
  refuse_key(with(llama_config(), "rope_parameters",
                  {{"rope_type", "default"}, {"rope_theta", 1e4}, {"partial_rotary_factor", 0.5}}),
             "partial_rotary_factor is 0.5, expected 1");
  // transformers would assume 32 in a Qwen2, and all heads in a Llama.
  json qwen2 = with(llama_config(), "model_type", "qwen2");
  qwen2.erase("num_key_value_heads");
  refuse_key(qwen2, "as num_key_value_heads");
  // A Mistral has a window of 4096 tokens unless its file says that there is none.
  const json mistral = with(llama_config(), "model_type", "mistral");
  refuse_key(mistral, "expected null as sliding_window");
  refuse_key(with(mistral, "sliding_window", 4096), "sliding_window is 4096, expected nothing");
  const auto taken = read(folder, with(mistral, "sliding_window", nullptr));
  REQUIRE(taken.warnings.empty());
  REQUIRE_FALSE(*taken.sizes.has_bias);
  // If both keys exist, the model uses the one that transformers uses.
  const json both = with(with(llama_config(), "rope_parameters", {{"rope_theta", 3.0}}),
                         "rope_scaling", {{"rope_type", "linear"}, {"factor", 2}});
  REQUIRE(read(folder, both).sizes.rotary_scaling == "linear:2");
  REQUIRE(read(folder, both).sizes.rotary_base == 20000.5);

  folder.write("generation_config.json", R"({"temperature": 0.6, "new_sampler": 3})");
  REQUIRE_THAT(read(folder, llama_config()).warnings.front(),
               ContainsSubstring("generation_config.json: new_sampler is 3"));
}

TEST_CASE("adapters that do more than add to the base are refused", "[text]") {
  const Folder folder;
  const auto read_with = [&](const std::string& more) {
    folder.write("adapter_config.json", R"({"peft_type": "LORA", "r": 4)" + more + "}");
    write_safetensors(
        folder.path() / "adapter_model.safetensors",
        {{"base_model.model.x.lora_A.weight", Tensor::full({1, 1}, 1, DType::f32, Device::cpu)}});
    return read_pretrained_adapters(folder.path()).options;
  };
  for (const char* how : {"true", "false", R"("gaussian")", R"("orthogonal")", R"("eva")"})
    REQUIRE(read_with(fmt::format(R"(, "init_lora_weights": {})", how)).scale() == 2);
  for (const char* how : {"pissa", "pissa_niter_4", "olora", "corda", "loftq", "lora_ga", "mica"})
    REQUIRE_ERROR(read_with(fmt::format(R"(, "init_lora_weights": "{}")", how)),
                  fmt::format("init_lora_weights is {}, expected true or false or gaussian", how));
  for (const char* more : {R"("alora_invocation_tokens": [1])", R"("layer_replication": [[0, 1]])",
                           R"("trainable_token_indices": [3])", R"("task_type": "SEQ_CLS")",
                           R"("target_parameters": ["x"])", R"("alpha_pattern": {"q_proj": 3})",
                           R"("bias": "lora_only")", R"("use_newest": true)"})
    REQUIRE_ERROR(read_with(fmt::format(", {}", more)), "adapter_config.json: ");
  REQUIRE(read_with(R"(, "use_newest": null, "alora_invocation_tokens": null)").rank == 4);
}

TEST_CASE("the table of keys has every key that is read", "[text]") {
  const ConfigFile config("x", json{{"n_embd", 3}}, gpt2_keys());
  REQUIRE(config.count("n_embd") == 3);
  REQUIRE_ERROR(config.number("initializer_range", 1), "does not stand in the table");
  REQUIRE_ERROR(config.count("unheard_of", 1), "does not stand in the table");
  for (const KnownKeys* keys :
       {&gpt2_keys(), &llama_keys(), &mistral_keys(), &qwen2_keys(), &rotary_keys(),
        &generation_keys(), &lora_keys(), &gguf_architecture_keys()})
    for (const auto& table : keys->tables)
      for (const KnownKey& key : table)
        REQUIRE((key.heed == Heed::fixed || key.heed == Heed::writing) == !key.values.empty());
}

TEST_CASE("an export equals the import, except for trained weights", "[text]") {
  const Folder folder;
  const json generation{{"temperature", 0.6}, {"eos_token_id", {3, 5}}, {"top_p", 0.9}};
  const std::string run = short_run(folder) + "--context 8 --save ";
  const std::string weights = folder / "w.safetensors", trained = folder / "trained.safetensors";
  json llama = llama_config();
  llama.update({{"bos_token_id", 1},
                {"eos_token_id", {2, 3}},
                {"torch_dtype", "bfloat16"},
                {"initializer_range", 0.3},
                {"somebodys", {{"own", "\u00fc"}}}});
  json gpt2 = gpt2_config();
  gpt2.update({{"tie_word_embeddings", false}, {"dtype", "float16"}, {"eos_token_id", 7}});
  for (const json& config : {llama, gpt2}) {
    const std::string name = config["model_type"];
    INFO(name);
    write_model(folder, name, config, generation);
    succeed(fmt::format("text import --from {} --out {}", folder / name, weights));
    json expected = config;
    expected[config.contains("dtype") ? "dtype" : "torch_dtype"] = "float32";
    const auto exported = [&](const std::string& of, const std::string& out) {
      succeed(fmt::format("text export --weights {} --out {}", of, folder / out));
      REQUIRE(read_json(folder / (out + "/generation_config.json")) == generation);
      return read_json(folder / (out + "/config.json"));
    };
    REQUIRE(exported(weights, name + "-out") == expected);
    succeed("train --init " + weights + run + trained);
    REQUIRE(exported(trained, name + "-trained") == expected);
    succeed("train --init " + weights + " --lora 2" + run + trained);
    succeed(fmt::format("text merge --weights {0} --out {0}.merged", trained));
    REQUIRE(exported(trained + ".merged", name + "-merged") == expected);
    // The weights' metadata cannot make the export write another file.
    Metadata said = read_safetensors_metadata(weights);
    said["../" + name + ".json"] = "{}";
    write_safetensors(weights, read_safetensors(weights), said);
    REQUIRE(exported(weights, name + "-said") == expected);
    REQUIRE_FALSE(fs::exists(folder / (name + ".json")));
  }
}

TEST_CASE("rows longer than a model was made for cause a warning, and for GPT-2 an error",
          "[text]") {
  const Folder folder;
  json llama = llama_config(), gpt2 = gpt2_config();
  llama["max_position_embeddings"] = 16;
  const std::string run = short_run(folder);
  const auto weights = [&](const std::string& name) { return folder / (name + ".safetensors"); };
  for (const json& config : {llama, gpt2}) {
    const std::string name = config["model_type"];
    write_model(folder, name, config);
    succeed(fmt::format("text import --from {} --out {}", folder / name, weights(name)));
  }
  for (const std::string how : {"--init ", "--lora 2 --base "}) {
    INFO(how);
    const std::string warned =
        succeed("train --context 32 " + how + weights("llama") + run + "--save " + weights("long"));
    REQUIRE_THAT(warned, ContainsSubstring("warning: rows of 32 tokens, but the model of"));
    REQUIRE_THAT(warned, ContainsSubstring("is made for 16"));
    const std::string fits = succeed("train --context 16 " + how + weights("llama") + run);
    REQUIRE_THAT(fits, !ContainsSubstring("warning"));
    refuse("train --context 32 " + how + weights("gpt2") + run,
           "rows of 32 tokens, but the model of");
    refuse("train --context 32 " + how + weights("gpt2") + run,
           "has an embedding for 16 positions: expected a --context of 16 at most");
  }
  // A model that is trained from the beginning is made for its rows, whatever its name says.
  for (const std::string model : {"llama-tiny", "gpt-tiny"}) {
    const std::string tiny = "train --layers 1 --hidden-size 8 --model " + model + run;
    REQUIRE_THAT(succeed(tiny + "--context 300 --save " + weights("tiny")),
                 !ContainsSubstring("warning"));
    REQUIRE_THAT(succeed("train --context 300 --init " + weights("tiny") + run),
                 !ContainsSubstring("warning"));
    succeed("train --context 8 --init " + weights("tiny") + run);
    succeed(fmt::format("text export --weights {} --out {}", weights("tiny"), folder / model));
    const json config = read_json(folder / (model + "/config.json"));
    REQUIRE(config[model == "gpt-tiny" ? "n_positions" : "max_position_embeddings"] == 300);
  }
}

}  // namespace configurations
}  // namespace accrue::test
