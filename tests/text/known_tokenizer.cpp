// A model and its tokenizer belong together.

#include "tests/support/catch.h"
#include "tests/support/cli.h"
#include "tests/support/gguf_bytes.h"
#include "text/gguf_tokenizer.h"
#include "text/tokenizer_file.h"
#include "text/tokenizers.h"
#include "train/weights.h"

namespace accrue::test {
namespace tokenizers_of_models {
namespace {

using B = GgufBytes;

// A Llama of one layer with a tokenizer of 14 tokens, and one token of padding.
B small_model(const std::string& last_word = "eh") {
  B file;
  file.string("general.architecture", "llama");
  const std::pair<const char*, uint32_t> counts[]{
      {"block_count", 1},          {"context_length", 64},      {"embedding_length", 8},
      {"feed_forward_length", 12}, {"attention.head_count", 2}, {"attention.head_count_kv", 1},
      {"vocab_size", 15},          {"rope.dimension_count", 4}};
  for (const auto& [key, value] : counts) file.count(std::string("llama.") + key, value);
  file.number("llama.attention.layer_norm_rms_epsilon", B::f32, 1e-5f);
  file.string("tokenizer.ggml.model", "gpt2").string("tokenizer.ggml.pre", "gpt-2");
  file.list<std::string>("tokenizer.ggml.tokens", B::text,
                         {"<|end|>", "h", "e", "\xc4\xa0", "1", "2", "he", "12", "3", "4", "5", "6",
                          "7", last_word, "[PAD14]"});
  file.list<int32_t>("tokenizer.ggml.token_type", B::i32,
                     {3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 5});
  file.list<std::string>("tokenizer.ggml.merges", B::text, {"h e", "1 2"});
  file.count("tokenizer.ggml.eos_token_id", 0);
  const auto add = [&](const std::string& name, std::vector<uint64_t> sizes) {
    uint64_t count = 1;
    for (const uint64_t size : sizes) count *= size;
    std::string numbers;
    for (uint64_t i = 0; i < count; ++i) numbers += B::raw(float(i % 7) / 8 - 0.25f);
    file.tensor(name, sizes, 0, numbers);
  };
  add("token_embd.weight", {8, 15});
  add("output_norm.weight", {8});
  for (const char* name : {"attn_q.weight", "attn_output.weight"})
    add(std::string("blk.0.") + name, {8, 8});
  for (const char* name : {"attn_k.weight", "attn_v.weight"})
    add(std::string("blk.0.") + name, {8, 4});
  for (const char* name : {"ffn_gate.weight", "ffn_up.weight"})
    add(std::string("blk.0.") + name, {8, 12});
  add("blk.0.ffn_down.weight", {12, 8});
  for (const char* name : {"attn_norm.weight", "ffn_norm.weight"})
    add(std::string("blk.0.") + name, {8});
  return file;
}

std::string lines_of(const std::string& words) {
  std::string lines;
  for (int i = 0; i < 40; ++i) lines += fmt::format("{{\"text\": \"{} {}\"}}\n", words, i * i);
  return lines;
}

constexpr const char* one_step =
    " --context 16 --micro-batch 2 --effective-batch 2 --steps 1 --threads 1 ";

}  // namespace

TEST_CASE("a tokenizer is known by its tokens, whatever files it lies in", "[text]") {
  const TemporaryDirectory directory;
  const auto here = directory.write("model.gguf", small_model().file());
  const TokenizerFiles files = tokenizer_with_files(here.string());
  for (const auto& [name, content] : files.files) directory.write("kept/" + name, content);
  const KnownTokenizer in_gguf = tokenizer_in_gguf(here.string());
  REQUIRE(in_gguf.is_known());
  REQUIRE(in_gguf.checksum == known_tokenizer((directory.path() / "kept").string()).checksum);
  REQUIRE(known_tokenizer("bytes").checksum != in_gguf.checksum);
  const auto other = directory.write("other.gguf", small_model("ee").file());
  REQUIRE(tokenizer_in_gguf(other.string()).checksum != in_gguf.checksum);
  // transformers' own file has no padding, and the same checksum.
  std::string unfilled = files.files.at("tokenizer.json");
  const std::string padding = ",\"[PAD14]\":14";
  REQUIRE(unfilled.find(padding) != unfilled.npos);
  unfilled.erase(unfilled.find(padding), padding.size());
  const TokenizerPtr smaller = parse_tokenizer(unfilled, "unfilled");
  REQUIRE(smaller->size() == 14);
  REQUIRE(tokenizer_checksum(*smaller) == in_gguf.checksum);
}

TEST_CASE("a vocabulary is padded to a round number, not to another tokenizer's", "[text]") {
  for (const auto& [vocabulary, tokens] :
       {std::pair{50304, 50257}, std::pair{151936, 151665}, std::pair{51200, 50295},
        std::pair{264, 257}, std::pair{320, 257}, std::pair{257, 257}})
    REQUIRE(may_be_padded(vocabulary, tokens));
  for (const auto& [vocabulary, tokens] :
       {std::pair{50257, 49152}, std::pair{600, 257}, std::pair{49152, 257}, std::pair{256, 257}})
    REQUIRE_FALSE(may_be_padded(vocabulary, tokens));
}

TEST_CASE("a GGUF base brings its tokenizer", "[text]") {
  const Folder folder;
  const std::string base = folder / "base.gguf", lines = folder / "x.jsonl";
  folder.write("base.gguf", small_model().file());
  folder.write("other.gguf", small_model("ee").file());
  folder.write("x.jsonl", lines_of("he eh"));
  const auto train = [&](const std::string& more) {
    return "train --base " + base + " --lora 2" + one_step + more + " --data ";
  };
  const auto saved = [&](const char* name, const std::string& more, const std::string& data) {
    succeed(train("--save " + (folder / name) + more) + data);
    return file_bytes(folder / name);
  };
  const auto with_its_own = saved("a", " --tokenizer " + base, lines);
  REQUIRE(saved("b", "", lines) == with_its_own);
  const auto tuned = " --weights " + (folder / "b");
  REQUIRE_THAT(succeed("text write --tokens 5 --prompt 'he 12'" + tuned),
               ContainsSubstring("he 12"));
  succeed("eval --context 16 --init " + (folder / "b") + " --data " + lines);
  succeed("plan --base " + base +
          " --lora 2 --context 16 --effective-batch 2 --memory 1GiB --data " + lines);
  // Refused are texts read by another tokenizer or by bytes, and a corpus that another tokenizer
  // made.
  const std::string other = folder / "other.gguf";
  refuse(train("--tokenizer " + other) + lines,
         fmt::format("come from the tokenizer '{}' (checksum {}), but {} learned by its own", other,
                     known_tokenizer(other).checksum, base));
  refuse(train("--tokenizer bytes") + lines, "come from the tokenizer 'bytes'");
  refuse(train("") + "grammar", "come from the tokenizer 'bytes'");
  refuse("text write --prompt he --tokenizer " + other + tuned, "learned by '" + base + "'");
  for (const std::string name : {"other", "base"})
    succeed("text prepare --text " + lines + " --tokenizer " + (folder / name) + ".gguf --out " +
            (folder / name));
  refuse(train("") + (folder / "other"),
         fmt::format("come from the tokenizer '{}'", folder / "other"));
  // Adapters that learned from a corpus find it in their base when that is gone.
  succeed(train("--save " + (folder / "c")) + (folder / "base"));
  fs::remove_all(folder / "base");
  succeed("text write --tokens 5 --prompt he --weights " + (folder / "c"));
  // The widened weights know the tokenizer, too, and an export for transformers has it.
  succeed("text import --from " + base + " --out " + (folder / "wide"));
  refuse("eval --context 16 --init " + (folder / "wide") + " --data " + (folder / "other"),
         "come from the tokenizer");
  succeed("text export --weights " + (folder / "wide") + " --out " + (folder / "hub"));
  REQUIRE(known_tokenizer(folder / "hub").checksum == known_tokenizer(base).checksum);
  // A directory of transformers knows its tokenizer, both as it is and imported.
  refuse("text write --prompt he --tokenizer bytes --model llama-tiny --weights " +
             (folder / "hub/model.safetensors"),
         "learned by '" + (folder / "hub") + "'");
  succeed("text import --from " + (folder / "hub") + " --out " + (folder / "back"));
  // The imported tokenizer files stay beside the weights.
  const std::string write = "text write --temperature 0 --tokens 5 --prompt he --weights ";
  const std::string written = succeed(write + (folder / "wide"));
  fs::remove_all(folder / "hub");
  fs::remove(base);
  for (const char* const name : {"back", "wide"}) {
    REQUIRE(fs::exists(folder / (std::string(name) + ".tokenizer/tokenizer_config.json")));
    REQUIRE(succeed(write + (folder / name)) == written);
  }
}

TEST_CASE("weights know the tokenizer that they learned by, and find it", "[text]") {
  const Folder folder;
  for (const std::string name : {"here", "there"}) {
    folder.write(name + ".jsonl", lines_of(name + " and more of " + name));
    succeed(fmt::format("text prepare --text {0}.jsonl --train-tokenizer 270 --out {0}",
                        folder / name));
  }
  const std::string w = folder / "w.safetensors", lines = " --data " + (folder / "here.jsonl"),
                    here = " --data " + (folder / "here"), there = " --data " + (folder / "there");
  succeed("train --model gpt-tiny --layers 1 --heads 1 --hidden-size 8 --positions 16" +
          std::string(one_step) + here + " --save " + w);
  const std::string write = "text write --temperature 0 --tokens 5 --prompt her --weights ",
                    eval = "eval --context 16 --init ", train = std::string("train") + one_step;
  const std::string written = succeed(write + w);
  REQUIRE(written == succeed(write + w + " --tokenizer " + (folder / "here")));
  succeed(eval + w + lines);
  succeed(train + lines + " --save " + (folder / "by_itself") + " --init " + w);
  succeed(train + lines + " --save " + (folder / "as_asked") + " --tokenizer " + (folder / "here") +
          " --init " + w);
  REQUIRE(file_bytes(folder / "by_itself") == file_bytes(folder / "as_asked"));
  // The other tokenizer has the same number of tokens.
  const std::string both =
      fmt::format("come from the tokenizer '{}' (checksum {}), but {} learned by '{}'",
                  folder / "there", known_tokenizer(folder / "there").checksum, w, folder / "here");
  refuse(eval + w + there, both);
  refuse(train + there + " --init " + w, both);
  refuse(train + lines + " --tokenizer " + (folder / "there") + " --init " + w, both);
  refuse(write + w + " --tokenizer " + (folder / "there"), both);
  refuse(write + w + " --tokenizer bytes", "come from the tokenizer 'bytes'");
  // A corpus of before does not say its tokenizer's checksum, but holds it.
  const fs::path facts = folder / "there/corpus.json";
  auto said = nlohmann::json::parse(std::ifstream(facts));
  REQUIRE(said.erase("tokenizer_checksum") == 1);
  std::ofstream(facts) << said.dump();
  refuse(eval + w + there, both);
  // The tokenizer may lie beside weights that moved. Another tokenizer under its name is refused.
  fs::create_directory(folder / "moved");
  fs::copy_file(w, folder / "moved/w.safetensors");
  fs::rename(folder / "here", folder / "moved/here");
  REQUIRE(succeed(write + (folder / "moved/w.safetensors")) == written);
  refuse(write + w, fmt::format("the tokenizer of {}, which was '{}'", w, folder / "here"));
  fs::rename(folder / "there", folder / "here");
  refuse(write + w, fmt::format("'{}' has the checksum", folder / "here"));
  // Weights that name no tokenizer are not assumed to use bytes if the size of the vocabulary does
  // not fit.
  NamedTensors tensors = read_safetensors(w);
  for (auto& [name, tensor] : tensors)
    if (name == "transformer.wte.weight")
      tensor = Tensor::full({600, 8}, 0, DType::f32, Device::cpu);
  write_safetensors(folder / "silent.safetensors", tensors,
                    {{"model", "gpt-tiny"}, {"layers", "1"}, {"heads", "1"}, {"hidden-size", "8"}});
  refuse(eval + (folder / "silent.safetensors") + lines,
         "the tokenizer bytes has 257 tokens, but " + (folder / "silent.safetensors") +
             " is of a model of 600");
}

}  // namespace tokenizers_of_models
}  // namespace accrue::test
