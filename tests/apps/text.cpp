// The commands of text.

#include "tests/support/cli.h"
#include "text/corpus.h"
#include "train/tensorboard/event_file.h"

namespace accrue::test {
namespace {

std::string tiny_model() {
  return " --model gpt-tiny --layers 1 --heads 1 --hidden-size 8 --positions 32 ";
}

bool has_event_files() {
  try {
    require_event_files();
    return true;
  } catch (const Error&) {
    return false;
  }
}

// 40 documents; half are for the test.
std::string small_corpus(const Folder& folder) {
  std::string texts;
  for (int i = 0; i < 40; ++i)
    texts += fmt::format("{{\"text\": \"The {}th of the small texts.\"}}\n", i);
  folder.write("texts.jsonl", texts);
  succeed(fmt::format("text prepare --hold-out 0.5 --text {} --out {}", folder / "texts.jsonl",
                      folder / "corpus"));
  return " --data " + (folder / "corpus") + " --documents padded --context 16 ";
}

}  // namespace

TEST_CASE("text prepare makes a corpus and says what is in it", "[text]") {
  const Folder folder;
  folder.write("books/1.txt", "Once.");
  folder.write("books/2.jsonl",
               "{\"prompt\": \"2+2=\", \"completion\": \"4\"}\n{\"text\": \"\"}\n");
  folder.write("books/cover.png", "x");
  const std::string command =
      fmt::format("text prepare --text {} --out {}", folder / "books", folder / "corpus");
  REQUIRE_THAT(succeed(command),
               ContainsSubstring(fmt::format(
                   "2 documents, 12 tokens, 8 of them to be learned, 0.83 bytes a token, to {}\n"
                   "left alone: 1 entry in folders, no text by its name: cover.png\n"
                   "left alone: 1 document without a text to learn: '{}/2.jsonl', line 2\n",
                   folder / "corpus", folder / "books")));
  REQUIRE(open_corpora(folder / "corpus").train->size() == 12);
  // It refuses to write over existing files, or into the folder that it reads.
  refuse(command, "exists and is no empty directory");
  refuse(fmt::format("text prepare --text {} --out {}", folder / "books", folder / "books/corpus"),
         "expected a path elsewhere");
  REQUIRE(!fs::exists(folder / "books/corpus"));
}

TEST_CASE("bench train counts the tokens of language models", "[text]") {
  const Folder folder;
  const std::string json = folder / "bench.json";
  const std::string text = succeed("bench train --seconds 0.01 --micro-batch 2 --accum 2" +
                                   tiny_model() + "--context 16 --json " + json);
  REQUIRE_THAT(text, ContainsSubstring(" tokens/s on "));
  const auto figures = nlohmann::json::parse(std::ifstream(json));
  REQUIRE(figures["tokens_per_s"] == 16 * figures["samples_per_s"].get<double>());
}

TEST_CASE("a corpus records which part is held out", "[text]") {
  const Folder folder;
  const std::string data = small_corpus(folder);
  const std::string training = "train --steps 1 --micro-batch 2 --accum 1" + data + tiny_model();
  const std::string text = succeed(training);
  // Each document gives two rows: its first 16 tokens, and the rest.
  int rows = 0, held_out = 0;
  const size_t at = text.find("corpus: ", text.find("parameters |"));
  REQUIRE(std::sscanf(text.c_str() + at, "corpus: %d training and %d test", &rows, &held_out) == 2);
  REQUIRE(rows + held_out >= 80);
  REQUIRE(held_out >= 20);
  REQUIRE(held_out <= 60);
  refuse(training + " --hold-out 0.2", "expected it of `accrue text prepare`");
  refuse("text prepare --hold-out 1 --text x --out y", "--hold-out");
}

TEST_CASE("adapters of weights that have learnt nothing are warned of", "[text]") {
  const Folder folder;
  const std::string training =
      "train --micro-batch 2 --accum 1" + small_corpus(folder) + tiny_model();
  const std::string weights = folder / "w", warning = "warning: --lora 2 trains adapters alone";
  const std::string kept = training + "--lora 2 --checkpoint-dir " + (folder / "checkpoints");
  REQUIRE_THAT(succeed(kept + " --steps 1"), ContainsSubstring(warning));
  REQUIRE_THAT(succeed(kept + " --steps 2 --resume"), !ContainsSubstring(warning));
  REQUIRE_THAT(succeed(training + "--steps 1 --save " + weights), !ContainsSubstring("warning"));
  REQUIRE_THAT(succeed(training + "--steps 1 --lora 2 --init " + weights),
               !ContainsSubstring(warning));
}

TEST_CASE("a language model writes on its way, and learns the same", "[text]") {
  const Folder folder;
  const std::string training = "train --steps 4 --dropout 0.1 --micro-batch 2 --accum 2" +
                               small_corpus(folder) + tiny_model() + "--save ";
  succeed(training + (folder / "alone.safetensors"));
  const std::string log = folder / "log", json = folder / "lines.json";
  const std::string text = succeed(training + (folder / "watched.safetensors") +
                                   " --sample-every 2 --sample-prompt 'The\n' " + "--json " + json +
                                   (has_event_files() ? " --log-dir " + log : ""));
  REQUIRE_THAT(text, ContainsSubstring("[Window 2] The\\n"));
  REQUIRE_THAT(text, ContainsSubstring("[Window 4] The\\n"));
  REQUIRE(file_bytes(folder / "alone.safetensors") == file_bytes(folder / "watched.safetensors"));
  std::vector<std::string> written;
  std::ifstream lines(json);
  for (std::string line; std::getline(lines, line);)
    if (const auto said = nlohmann::json::parse(line); said.contains("sample")) {
      REQUIRE(said["window"] == 2 * int(written.size()) + 2);
      written.push_back(said["sample"]);
    }
  REQUIRE(written.size() == 2);
  REQUIRE(written[0].starts_with("The\n"));
  // Without a prompt it begins like a held-out document.
  REQUIRE_THAT(succeed(training + (folder / "w.safetensors") + " --sample-every 4"),
               ContainsSubstring("[Window 4] The "));
  refuse(training + (folder / "w.safetensors") + " --sample-every 1 --sample-prompt " +
             std::string(40, 'x'),
         "--sample-prompt has 40 tokens, but the model has 32 positions");
  if (!has_event_files()) return;
  std::vector<std::string> shown;
  for (const auto& entry : fs::directory_iterator(log))
    if (entry.path().filename().string().starts_with("events"))
      for (const Event& event : read_events(entry.path()))
        for (const auto& [tag, sample] : event.texts) shown.push_back(sample);
  REQUIRE(shown == written);
}

TEST_CASE("what is often given in place of data and weights names the way", "[text]") {
  const Folder folder;
  for (int i = 0; i < 60; ++i)
    folder.write(fmt::format("texts/{}.md", i), fmt::format("The {}th cat sat.", i));
  folder.write("log.txt", "The cat sat.");
  const std::string train =
      "train --steps 1 --micro-batch 1 --effective-batch 1 --context 4" + tiny_model() + "--data ";
  for (const std::string texts : {"log.txt", "texts"})
    refuse(train + (folder / texts), "`accrue text prepare --text " + (folder / texts));
  succeed(train + (folder / "texts") + " --tokenizer bytes");
  folder.write("base.gguf", "GGUF" + std::string(60, '\3'));
  folder.write("model/config.json", "{}");
  for (const std::string option :
       {"text write --weights ", "train --data grammar --steps 1 --init "}) {
    refuse(option + (folder / "base.gguf"),
           "is GGUF: expected safetensors, which `accrue text import");
    refuse(option + (folder / "model"), "is a directory of transformers");
    for (const std::string name : {"owner/name-135M", "owner/name-3.2-1B"})
      refuse(option + name, "is fetched by `hf download " + name);
  }
  refuse("train --data grammar --lora 2 --base " + (folder / "model"),
         "is a directory of transformers");
  refuse("train --data grammar --lora 2 --base owner/name-2.5-0.5B", "is fetched by `hf download");
  refuse("train --model gpt-tiny --data owner/chats", "--repo-type dataset");
  refuse("text import --from owner/name-2.5-0.5B", "is fetched by `hf download");
  refuse("text import --from " + (folder / "texts"), "holds no config.json");
  refuse("text write --prompt x", "expected --weights FILE.safetensors, or --base FILE.gguf");
  folder.write("list.json", "[\n{\"text\": \"a\"}\n]\n");
  refuse(train + (folder / "list.json"), "python3 -c");
  // Files that may be missing in a directory of transformers.
  const std::string llama =
      R"({"model_type": "llama", "vocab_size": 8, "hidden_size": 8, "intermediate_size": 8,
          "num_hidden_layers": 1, "num_attention_heads": 2, "max_position_embeddings": 8})";
  folder.write("torch/config.json", llama);
  folder.write("torch/pytorch_model.bin", "x");
  refuse("text import --from " + (folder / "torch"), "save_pretrained(");
  folder.write("shards/config.json", llama);
  folder.write("shards/model.safetensors.index.json",
               R"({"weight_map": {"lm_head.weight": "model-2-of-2.safetensors"}})");
  refuse("text import --from " + (folder / "shards"),
         "has lm_head.weight in 'model-2-of-2.safetensors', which is not there");
}

TEST_CASE("a language model is scored on the test alone, unless more is asked for", "[text]") {
  const Folder folder;
  const std::string weights = folder / "w.safetensors", data = small_corpus(folder);
  succeed("train --steps 1 --micro-batch 2 --accum 2" + data + tiny_model() + "--save " + weights);
  const std::string eval = "eval --init " + weights + data;
  const std::string alone = succeed(eval), both = succeed(eval + " --split both");
  REQUIRE_THAT(alone, ContainsSubstring("test perplexity"));
  REQUIRE(alone.find("training perplexity") == alone.npos);
  REQUIRE_THAT(both, ContainsSubstring("test perplexity"));
  REQUIRE_THAT(both, ContainsSubstring("training perplexity"));
}

TEST_CASE("a text longer than a model's training rows causes a warning", "[text]") {
  const Folder folder;
  const std::string weights = folder / "w.safetensors";
  succeed(
      "train --model llama-tiny --layers 1 --hidden-size 16 --heads 2 --groups 1 --steps 1 "
      "--micro-batch 2 --effective-batch 2 --positions 16 --save " +
      weights + small_corpus(folder));
  const std::string write = "text write --prompt The --weights " + weights + " --tokens ";
  REQUIRE_THAT(succeed(write + "20"), ContainsSubstring("3 tokens and --tokens 20 are 23, but " +
                                                        weights + " is made for 16"));
  REQUIRE(succeed(write + "8").find("made for") == std::string::npos);
}

TEST_CASE("a model keeps the name that it came with", "[text]") {
  const Folder folder;
  const std::string there = folder / "My Llama_3", weights = folder / "w.safetensors";
  folder.write("My Llama_3/config.json",
               R"({"model_type": "llama", "vocab_size": 257, "hidden_size": 128,
                   "intermediate_size": 344, "num_hidden_layers": 4, "num_attention_heads": 4,
                   "num_key_value_heads": 2, "rms_norm_eps": 1e-5,
                   "max_position_embeddings": 64})");
  const std::string data = small_corpus(folder);
  const std::string run = data + "--micro-batch 1 --effective-batch 1 --steps 1 ";
  succeed("train --model llama-tiny" + run + "--save " + weights);
  NamedTensors tensors = read_safetensors(weights);
  write_safetensors(folder / "My Llama_3/model.safetensors", tensors, {{"format", "pt"}});
  succeed("text import --from '" + there + "' --out " + weights);
  const Metadata said = read_safetensors_metadata(weights);
  REQUIRE(said.at("model") == "llama-tiny");
  REQUIRE(said.at("model-name") == "my-llama-3");
  const std::string tuned = folder / "tuned.safetensors";
  for (const std::string name : {"my-llama-3", "llama-tiny"}) {
    REQUIRE_THAT(succeed("train --init " + weights + run + "--save " + tuned + " --model " + name),
                 ContainsSubstring("my-llama-3: "));
    succeed("train --lora 2 --base " + weights + run + "--model " + name);
  }
  REQUIRE(read_safetensors_metadata(tuned).at("model-name") == "my-llama-3");
  REQUIRE_THAT(succeed("plan --memory 1GiB --effective-batch 2" + data + "--init " + weights),
               ContainsSubstring("my-llama-3"));
  refuse("train --init " + weights + run + "--model tinyllama",
         "--model is tinyllama, but they were trained with my-llama-3");
  refuse("train --lora 2 --base " + weights + run + "--model gpt2",
         "--model gpt2, but the base '" + weights + "' is a my-llama-3: expected no --model");
  refuse("train --init " + weights + run + "--model my-llama",
         "--model is my-llama, but they were trained with my-llama-3");
  refuse("train --model my-llama-3" + run, "--model is my-llama-3: expected");
  // Older weights files say only the architecture.
  Metadata old = said;
  old.erase("model-name");
  old["model"] = "tinyllama";
  old["positions"] = "64";
  for (const auto& [name, value] : {std::pair{"layers", "4"},
                                    {"heads", "4"},
                                    {"hidden-size", "128"},
                                    {"groups", "2"},
                                    {"feed-forward-size", "344"},
                                    {"head-size", "32"},
                                    {"rotary-base", "10000"}})
    old[name] = value;
  write_safetensors(folder / "old.safetensors", tensors, old);
  for (const std::string model : {"", "--model llama-tiny", "--model tinyllama"})
    succeed("train --init " + (folder / "old.safetensors") + run + model);
}

TEST_CASE("a language model answers in a chat", "[text]") {
  const Folder folder;
  const std::string weights = folder / "w.safetensors";
  std::string lines;
  for (int i = 0; i < 64; ++i)
    lines += fmt::format(R"({{"messages": [{{"role": "user", "content": "q{}"}}, )"
                         R"({{"role": "assistant", "content": "b<"}}]}})"
                         "\n",
                         i);
  folder.write("chats.jsonl", lines);
  // It memorizes that an answer is "b<" and then the marks of its end, which are many tokens of
  // bytes.
  succeed("train --model llama-tiny --layers 2 --hidden-size 32 --documents padded --data " +
          (folder / "chats.jsonl") +
          " --context 96 --micro-batch 8 --effective-batch 8 --optimizer adamw --lr 1e-2 --epochs "
          "20 --save " +
          weights);
  const std::string write = "text write --weights " + weights, none = " 2>/dev/null";
  folder.write("one.json", "{\"messages\": [\n{\"role\": \"user\", \"content\": \"q7\"}\n]}\n");
  REQUIRE(succeed(write + " --messages " + (folder / "one.json") + none) == "b<\n");
  folder.write("list.json", R"([{"role": "user", "content": "q7"}])");
  REQUIRE(succeed(write + " --messages " + (folder / "list.json") + none) == "b<\n");
  const std::string line = R"({"messages":[{"content":"q7","role":"user"}]})",
                    answered = R"({"messages":[{"content":"q7","role":"user"},)"
                               R"({"content":"b<","role":"assistant"}]})";
  folder.write("two.jsonl", line + "\n\n" + line + "\n");
  REQUIRE(succeed(write + " --messages " + (folder / "two.jsonl") + none) ==
          answered + "\n" + answered + "\n");
  folder.write("lines", "q7\n\n");
  REQUIRE(succeed(write + " --chat <" + (folder / "lines") + none) == "b<\n");
  REQUIRE_THAT(succeed(write + " --chat --tokens 1 <" + (folder / "lines")),
               ContainsSubstring("cut after 1 tokens"));
  folder.write("latin", "gr\xfc\xdf dich\n");
  refuse(write + " --chat <" + (folder / "latin"), "line 1 of standard input is not UTF-8");
  folder.write("answered.jsonl", answered);
  refuse(write + " --messages " + (folder / "answered.jsonl"),
         "the last message is the assistant's");
  folder.write("text.jsonl", R"({"text": "a"})");
  refuse(write + " --messages " + (folder / "text.jsonl"), "expected an object with messages");
  refuse(write + " --messages x --prompt y", "--prompt");
  refuse(write + " --system x", "--chat");
}

TEST_CASE("weights with more tokens than the data are kept, by any of GPT-2's names", "[text]") {
  const Folder folder;
  const std::string data = small_corpus(folder), saved = folder / "w.safetensors";
  const std::string training = "train --steps 1 --micro-batch 2 --accum 1" + data;
  succeed(training + tiny_model() + "--save " + saved);
  Metadata said;
  const NamedTensors weights = read_safetensors(saved, Category::parameters, &said);
  // Names as in the hub's files: without their first part, and with masks.
  const auto stored = [&](int64_t tokens, bool says, const std::string& name) {
    NamedTensors all{{"h.0.attn.bias", Tensor::full({1, 1, 32, 32}, 1, DType::f32, Device::cpu)}};
    for (auto [tensor_name, tensor] : weights) {
      if (tensor_name == "transformer.wte.weight") {
        const Tensor wide = Tensor::full({tokens, 8}, 0, DType::f32, Device::cpu);
        const int64_t rows = std::min<int64_t>(tokens, 257);
        wide.slice(0, rows).copy_from(tensor.slice(0, rows));
        tensor = wide;
      }
      all.emplace_back(tensor_name.substr(std::string("transformer.").size()), tensor);
    }
    Metadata metadata = says ? said : Metadata{};
    metadata.erase("classes");
    write_safetensors(folder / name, all, metadata);
    return folder / name;
  };
  const std::string padded = stored(264, false, "padded.safetensors");
  const std::string trained = folder / "trained.safetensors";
  succeed(training + tiny_model() + "--init " + padded + " --save " + trained);
  const auto header = read_safetensors_header(trained);
  REQUIRE(header.metadata.at("classes") == "264");
  for (const auto& [name, dtype, shape] : header.entries)
    if (name == "transformer.wte.weight") REQUIRE(shape == Shape{264, 8});
  const std::string same = stored(257, true, "same.safetensors");
  REQUIRE(succeed("eval" + data + "--init " + same) == succeed("eval" + data + "--init " + saved));
  const std::string write = "text write --prompt The --tokens 20 --weights ";
  REQUIRE(succeed(write + same) == succeed(write + saved));
  succeed(write + stored(264, true, "described.safetensors"));
  refuse(training + tiny_model() + "--init " + stored(200, false, "small.safetensors"),
         "the tokenizer bytes has 257 tokens, but " + (folder / "small.safetensors") +
             " is of a model of 200");
}

}  // namespace accrue::test
