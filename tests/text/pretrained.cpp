// Language models as transformers stores them.

#include "text/pretrained.h"

#include <algorithm>
#include <map>

#include "tests/support/catch.h"
#include "tests/support/cli.h"
#include "tests/support/op_table.h"
#include "text/models.h"
#include "train/weights.h"

namespace accrue::test {
namespace {

constexpr const char* llama_config = R"({"model_type": "llama", "vocab_size": 11,
    "hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 32, "rms_norm_eps": 1e-5)";

LlamaOptions llama_of(const Folder& folder, const std::string& more) {
  folder.write("config.json", llama_config + more + "}");
  const PretrainedModel found = read_pretrained_config(folder.path());
  return std::get<LlamaOptions>(text_model(found.name, found.sizes));
}

NamedTensors weights_of(const TextModelOptions& options) {
  const auto model = make_text_model(options);
  return named_tensors(place(*model, DType::f32, Device::cpu, 1, GradientStorage::on_demand));
}

bool are_equal(const NamedTensors& a, const NamedTensors& b) {
  const std::map<std::string, Tensor> all(a.begin(), a.end());
  if (a.size() != b.size()) return false;
  return std::ranges::all_of(b, [&](const auto& named) {
    return all.contains(named.first) && to_doubles(all.at(named.first)) == to_doubles(named.second);
  });
}

}  // namespace

TEST_CASE("config.json says what a model is", "[text]") {
  const Folder folder;
  const LlamaOptions plain = llama_of(folder, "");
  REQUIRE(plain.layers == 2);
  REQUIRE(plain.groups == 2);
  REQUIRE(plain.head_size == 2);
  REQUIRE(plain.norm_eps == 1e-5);
  REQUIRE(plain.rotary.base == 10000);
  REQUIRE_FALSE(plain.rotary.llama3);
  REQUIRE_FALSE(plain.is_tied);
  // transformers 4 and 5 write rotary embeddings differently.
  for (const char* scaled :
       {R"(, "rope_theta": 500000.0, "rope_scaling": {"rope_type": "llama3", "factor": 32.0,
           "low_freq_factor": 1.0, "high_freq_factor": 4.0,
           "original_max_position_embeddings": 16})",
        R"(, "rope_parameters": {"rope_theta": 500000.0, "rope_type": "llama3", "factor": 32.0,
           "low_freq_factor": 1.0, "high_freq_factor": 4.0,
           "original_max_position_embeddings": 16})"}) {
    const LlamaOptions o = llama_of(folder, scaled);
    REQUIRE(o.rotary.base == 500000);
    REQUIRE(o.rotary.llama3);
    REQUIRE(o.rotary.llama3->factor == 32);
    REQUIRE(o.rotary.llama3->original_max_position_embeddings == 16);
  }
  REQUIRE(llama_of(folder, R"(, "rope_scaling": {"type": "linear", "factor": 4})")
              .rotary.linear_factor == 4);
  REQUIRE(llama_of(folder, R"(, "tie_word_embeddings": true)").is_tied);
}

TEST_CASE("a config.json's unknown features are refused by name", "[text]") {
  const Folder folder;
  const auto refuse_llama = [&](const std::string& more, const std::string& part) {
    REQUIRE_ERROR(llama_of(folder, more), part);
  };
  refuse_llama(R"(, "hidden_act": "gelu")", "hidden_act is gelu, expected silu");
  refuse_llama(R"(, "attention_bias": true)", "attention_bias is true");
  refuse_llama(R"(, "rope_scaling": {"rope_type": "yarn"})", "scaled by 'yarn'");
  refuse_llama(R"(, "rope_theta": "x")", "expected a number above 0 as rope_theta");
  const auto refuse_config = [&](const std::string& text, const std::string& part) {
    folder.write("config.json", text);
    REQUIRE_ERROR(read_pretrained_config(folder.path()), part);
  };
  refuse_config(R"({"model_type": "bert"})", "model_type is bert");
  refuse_config(R"({"model_type": "llama"})", "expected a whole number above 0 as");
  refuse_config(R"({"model_type": "gpt2", "activation_function": "relu"})", "activation_function");
  refuse_config(R"({"model_type": "gpt2", "n_inner": 5})", "n_inner is 5, expected 3072");
  refuse_config("[1]", "expected an object");
}

TEST_CASE("weights are read by the names that files have for them", "[text]") {
  const Folder folder;
  const TextModelOptions gpt2 =
      Gpt2Options{.vocabulary = 11, .context = 6, .width = 8, .layers = 2, .heads = 2};
  const NamedTensors weights = weights_of(gpt2);
  folder.write("config.json", pretrained_config(gpt2, DType::f32));
  const PretrainedModel found = read_pretrained_config(folder.path());
  REQUIRE(found.vocabulary == 11);
  REQUIRE(found.context == 6);
  // A file like GPT-2's first ones: names without their first part, masks, and a second head.
  NamedTensors stored;
  for (const auto& [name, tensor] : weights)
    stored.emplace_back(name.substr(std::string("transformer.").size()), tensor);
  stored.emplace_back("h.0.attn.bias", Tensor::full({1, 1, 6, 6}, 1, DType::f32, Device::cpu));
  stored.emplace_back("lm_head.weight", weights.front().second);
  write_safetensors(folder.path() / "model.safetensors", stored);
  REQUIRE(are_equal(read_pretrained_weights(folder.path(), found), weights));
  // transformers 4 would ignore this head, and transformers 5 would use it.
  stored.back().second = Tensor::full({11, 8}, 1, DType::f32, Device::cpu);
  write_safetensors(folder.path() / "model.safetensors", stored);
  REQUIRE_ERROR(read_pretrained_weights(folder.path(), found),
                "lm_head.weight differs from the embedding");
}

TEST_CASE("weights are read from all files that an index names", "[text]") {
  const Folder folder;
  llama_of(folder, "");
  const PretrainedModel found = read_pretrained_config(folder.path());
  const NamedTensors weights =
      weights_of(text_model_for(text_model(found.name, found.sizes), found.vocabulary, 32));
  nlohmann::json index;
  for (const int part : {0, 1}) {
    NamedTensors some;
    for (size_t i = size_t(part); i < weights.size(); i += 2) {
      some.push_back(weights[i]);
      index["weight_map"][weights[i].first] = fmt::format("model-{}.safetensors", part);
    }
    write_safetensors(folder.path() / fmt::format("model-{}.safetensors", part), some);
  }
  folder.write("model.safetensors.index.json", index.dump());
  REQUIRE(are_equal(read_pretrained_weights(folder.path(), found), weights));
  index["weight_map"]["model.norm.weight"] = "../model-0.safetensors";
  folder.write("model.safetensors.index.json", index.dump());
  REQUIRE_ERROR(read_pretrained_weights(folder.path(), found),
                "expected the name of a file for model.norm.weight");
  fs::remove(folder.path() / "model.safetensors.index.json");
  REQUIRE_ERROR(read_pretrained_weights(folder.path(), found), "expected model.safetensors or");
}

TEST_CASE("a model goes out to transformers' layout and comes back", "[text]") {
  const Folder folder;
  std::string documents;  // a twentieth of the documents is held out
  for (int i = 0; i < 100; ++i) documents += fmt::format("{{\"text\": \"{} times\"}}\n", i);
  folder.write("books/1.jsonl", documents);
  const std::string corpus = folder / "corpus";
  succeed(fmt::format("text prepare --text {} --out {}", folder / "books", corpus));
  for (const std::string sizes :
       {"--model gpt-tiny --layers 1 --heads 2 --hidden-size 8 --positions 4 --context 300",
        "--model gpt-tiny --layers 1 --heads 2 --hidden-size 8 --tied-head no --context 8",
        "--model llama-tiny --layers 1 --heads 2 --groups 1 --hidden-size 8 --feed-forward-size 16 "
        "--rotary-scaling llama3:8:1:4:64 --tied-head yes --context 8"}) {
    INFO(sizes);
    const std::string weights = folder / "w.safetensors", back = folder / "back.safetensors";
    succeed(
        fmt::format("train --data {} {} --steps 1 --micro-batch 1 --effective-batch 2 --save {}",
                    corpus, sizes, weights));
    fs::remove_all(folder / "out");
    succeed(fmt::format("text export --weights {} --out {}", weights, folder / "out"));
    succeed(fmt::format("text import --from {} --out {}", folder / "out", back));
    REQUIRE(are_equal(read_safetensors(weights), read_safetensors(back)));
    const std::string write = "text write --tokens 3 --temperature 0 --prompt ab --weights ";
    REQUIRE(succeed(write + weights) == succeed(write + back));
    refuse(fmt::format("text import --from {0} --out {0}/model.safetensors", folder / "out"),
           "which is read");
  }
}

TEST_CASE("adapters are trained beside fixed weights, go out to PEFT and come back, and merge",
          "[text]") {
  const Folder folder;
  std::string documents;  // half of the documents are held out
  for (int i = 0; i < 20; ++i) documents += fmt::format("{{\"text\": \"{} times\"}}\n", i);
  folder.write("texts.jsonl", documents);
  const std::string data = " --data " + (folder / "corpus");
  succeed(fmt::format("text prepare --hold-out 0.5 --text {} --out {}", folder / "texts.jsonl",
                      folder / "corpus"));
  const std::string run = data + " --micro-batch 1 --effective-batch 2 --steps 2 --lr 0.1 ";
  for (const std::string sizes :
       {"--model gpt-tiny --layers 1 --heads 2 --hidden-size 8 --positions 16 --context 16",
        "--model llama-tiny --layers 1 --heads 2 --hidden-size 8 --context 16"}) {
    INFO(sizes);
    const std::string base = folder / "base.safetensors", tuned = folder / "tuned.safetensors",
                      back = folder / "back.safetensors", merged = folder / "merged.safetensors",
                      adapter = folder / "adapter";
    succeed("train " + sizes + run + "--save " + base);
    REQUIRE_THAT(succeed("train --init " + base + run + "--context 16 --lora 2 --lora-rs yes " +
                         "--lora-dropout 0.1 --lora-targets all --save " + tuned),
                 ContainsSubstring("are trained"));
    const NamedTensors before = read_safetensors(base);
    const NamedTensors tensors = read_safetensors(tuned);
    const std::map<std::string, Tensor> after(tensors.begin(), tensors.end());
    for (const auto& [name, tensor] : before)
      REQUIRE(to_doubles(after.at(name)) == to_doubles(tensor));
    for (const auto& [name, tensor] : after)
      if (name.ends_with("lora_B.weight"))
        REQUIRE(to_doubles(tensor) != Values(size_t(tensor.numel()), 0.0));
    // Training continues from the run's own weights, which record their adapters.
    succeed("train --init " + tuned + run + "--context 16");
    refuse("train --init " + tuned + run + "--lora 3", "--lora is 3, but they were trained with 2");

    fs::remove_all(adapter);
    succeed(fmt::format("text export --adapter --base x/y --weights {} --out {}", tuned, adapter));
    succeed(fmt::format("text import --from {} --base {} --out {}", adapter, base, back));
    REQUIRE(are_equal(tensors, read_safetensors(back)));
    refuse(fmt::format("text export --weights {} --out {}x", tuned, adapter), "expected --adapter");
    refuse(fmt::format("text export --adapter --weights {} --out {}x", base, adapter),
           "has no adapters");

    succeed(fmt::format("text merge --weights {} --out {}", tuned, merged));
    const auto loss_of = [&](const std::string& weights) {
      const std::string said = succeed("eval --init " + weights + data + " --context 16");
      return said.substr(said.find("loss"), said.find("loss") + 12);
    };
    REQUIRE(loss_of(back) == loss_of(tuned));
    REQUIRE(loss_of(merged) == loss_of(tuned));
    REQUIRE(loss_of(merged) != loss_of(base));
    refuse(fmt::format("text merge --weights {} --out {}x", merged, merged),
           "no adapters to merge");
  }
  refuse("train --model gpt-tiny --data grammar --lora-alpha 3", "lora");
  refuse("train --model gpt-tiny --data grammar --lora 2 --lora-targets q_proj",
         "no projections for LoRA are called 'q_proj'");
}

TEST_CASE("adapters are trained beside a base in another file, as it is or quantized", "[text]") {
  const Folder folder;
  const std::string base = folder / "base.safetensors", tuned = folder / "tuned.safetensors";
  folder.write("texts.jsonl", "{\"text\": \"one\"}\n{\"text\": \"two\"}\n{\"text\": \"three\"}\n");
  succeed(fmt::format("text prepare --hold-out 0.34 --text {} --out {}", folder / "texts.jsonl",
                      folder / "corpus"));
  const std::string run = " --data " + (folder / "corpus") +
                          " --context 16 --micro-batch 1 --effective-batch 1 --steps 2 --lr 0.1 ";
  succeed("train --model gpt-tiny --layers 1 --heads 2 --hidden-size 64 --positions 16" + run +
          "--save " + base);
  for (const std::string bits : {"", "--base-bits 4 ", "--base-bits 8 ", "--base-bits 16 "}) {
    // The model and its sizes come from the base.
    const std::string said =
        succeed("train --base " + base + run + bits + "--lora 2 --save " + tuned);
    REQUIRE_THAT(said, ContainsSubstring("gpt-tiny: "));
    REQUIRE_THAT(said, ContainsSubstring("predicted to the byte"));
    const NamedTensors adapters = read_safetensors(tuned);
    REQUIRE(adapters.size() == 2);
    const std::string again = succeed("eval --init " + tuned + run.substr(0, run.find(" --micro")));
    REQUIRE_THAT(said, ContainsSubstring(again.substr(again.rfind("loss"), 11)));
  }
  // A base may be moved. Another file in its place is refused.
  const std::string moved = folder / "moved";
  const std::string eval = "eval" + run.substr(0, run.find(" --micro")) + " --init ";
  const auto train = [&](const std::string& file, int steps) {
    return fmt::format("train --lora 2 --base {}{} --steps {} --checkpoint-dir {} ", file,
                       run.substr(0, run.find(" --steps")), steps, folder / "ck");
  };
  succeed(train(base, 2) + "--save " + tuned);
  succeed(train(folder / "./base.safetensors", 3) + "--resume");
  fs::create_directory(moved);
  fs::rename(base, moved + "/base.safetensors");
  fs::copy_file(tuned, moved + "/tuned.safetensors");
  succeed(eval + moved + "/tuned.safetensors");
  succeed(train(moved + "/base.safetensors", 4) + "--resume");
  succeed("train --seed 2 --model gpt-tiny --layers 1 --heads 2 --hidden-size 64 --positions 16" +
          run + "--save " + base);
  refuse(eval + tuned, "is not the base of the adapters in");
  refuse(train(base, 5) + "--resume", "is not the base of the adapters in");
  refuse("train --init " + tuned + run, "is not the base of the adapters in");
  succeed("train --init " + tuned + run + "--base " + moved + "/base.safetensors");
  fs::copy_file(moved + "/base.safetensors", base, fs::copy_options::overwrite_existing);
  REQUIRE_THAT(succeed("text export --adapter --base x/y --weights " + tuned + " --out " +
                       (folder / "peft")),
               ContainsSubstring("1 layers of width 64"));
  refuse("train --base " + base + run, "expected adapters, such as --lora 8");
  refuse("train --model llama-tiny --lora 2 --base " + base + run,
         "is a gpt-tiny: expected no --model");
  refuse("train --lora 2 --base " + tuned + run, "has adapters already");
  refuse("train --lora 2 --base-bits 4" + run, "--base");
  refuse("train --lora 2 --base-bits 5 --base " + base + run, "--base-bits");
  write_safetensors(folder / "other.safetensors",
                    {{"a", Tensor::full({1}, 1, DType::f32, Device::cpu)}});
  refuse("train --lora 2 --base " + (folder / "other.safetensors") + run,
         "does not say which language model");
}

TEST_CASE("adapters of PEFT's that are not there are refused by name", "[text]") {
  const Folder folder;
  const auto options_of = [&](const std::string& more) {
    folder.write(
        "adapter_config.json",
        R"({"peft_type": "LORA", "r": 4, "lora_alpha": 12, "use_rslora": true)" + more + "}");
    write_safetensors(
        folder.path() / "adapter_model.safetensors",
        {{"base_model.model.x.lora_A.weight", Tensor::full({1, 1}, 1, DType::f32, Device::cpu)}});
    return read_pretrained_adapters(folder.path());
  };
  const PretrainedAdapters found = options_of(R"(, "target_modules": ["q_proj", "up_proj"],
      "lora_dropout": 0.25, "rank_pattern": {}, "modules_to_save": null, "bias": "none")");
  REQUIRE(found.options.scale() == 6);
  REQUIRE(found.options.dropout == 0.25);
  REQUIRE(found.options.targets == std::vector<std::string>{"q_proj", "up_proj"});
  REQUIRE(found.weights.front().first == "x.lora_A.weight");
  REQUIRE(options_of(R"(, "target_modules": "all-linear")").options.targets.front() == "all");
  for (const auto& [more, part] : std::map<std::string, std::string>{
           {R"(, "use_dora": true)", "use_dora is true"},
           {R"(, "bias": "all")", "bias is all, expected none"},
           {R"(, "rank_pattern": {"q_proj": 8})", "rank_pattern is"},
           {R"(, "target_modules": ".*q_proj")", "expected names of layers or all-linear"},
           {R"(, "lora_dropout": 2)", "as lora_dropout"},
           {R"(, "modules_to_save": ["lm_head"])", "modules_to_save is"}})
    REQUIRE_ERROR(options_of(more), part);
}

TEST_CASE("text write asks for a language model and its tokenizer", "[text]") {
  const Folder folder;
  const std::string mlp = folder / "mlp.safetensors", other = folder / "other.safetensors";
  succeed(fmt::format("train --model mlp-small --steps 1 --save {}", mlp));
  refuse("text write --weights " + mlp, "expected a language model's");
  const Tensor embedding = Tensor::full({50257, 1}, 0, DType::f32, Device::cpu);
  write_safetensors(other, {{"transformer.wte.weight", embedding}}, {{"model", "gpt-tiny"}});
  refuse("text write --weights " + other, "expected --tokenizer with the one that it learned by");
  refuse("train --model gpt-tiny --data grammar --hold-out 0.1", "--hold-out");
  refuse("train --data grammar --model gpt-tiny --no-decay norm_1 --weight-decay 0.1",
         "no parameters that could decay are called");
}

}  // namespace accrue::test
