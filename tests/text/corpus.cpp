// Documents as tokens, in memory and in files, and damaged files.

#include "text/corpus.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "core/random.h"
#include "data/words.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"
#include "text/rows.h"

namespace accrue::test {
namespace {

namespace fs = std::filesystem;

std::vector<int32_t> tokens_of(const Corpus& corpus) {
  std::vector<int32_t> all(static_cast<size_t>(corpus.size()));
  corpus.read(all, 0);
  return all;
}

std::vector<bool> learned_in(const Corpus& corpus) {
  std::vector<bool> all;
  for (int64_t i = 0; i < corpus.size(); ++i) all.push_back(corpus.is_learned(i));
  return all;
}

void require_same(const Corpus& a, const Corpus& b) {
  REQUIRE(tokens_of(a) == tokens_of(b));
  REQUIRE(learned_in(a) == learned_in(b));
  REQUIRE(a.is_all_learned() == b.is_all_learned());
  REQUIRE(std::ranges::equal(a.documents().ends, b.documents().ends));
  REQUIRE(std::ranges::equal(a.documents().sections, b.documents().sections));
  REQUIRE(a.checksum() == b.checksum());
}

// Replaces a value in corpus.json; null removes it.
void set_fact(const fs::path& directory, const std::string& name, const nlohmann::json& value) {
  auto facts = nlohmann::json::parse(read_file(directory / "corpus.json"));
  if (value.is_null()) facts.erase(name);
  else facts[name] = value;
  std::ofstream(directory / "corpus.json") << facts.dump();
}

std::string llmc_file(const std::vector<uint16_t>& tokens, int32_t magic = 20240520,
                      int32_t version = 1, std::optional<int32_t> said = {}) {
  std::vector<int32_t> header(256);
  header[0] = magic;
  header[1] = version;
  header[2] = said.value_or(static_cast<int32_t>(tokens.size()));
  std::string file(reinterpret_cast<const char*>(header.data()), header.size() * 4);
  return file.append(reinterpret_cast<const char*>(tokens.data()), tokens.size() * 2);
}

}  // namespace

TEST_CASE("a corpus in files is the one in memory", "[text]") {
  for (const int64_t vocabulary : {65'536, 65'537}) {
    for (const bool has_prompts : {false, true}) {
      const TemporaryDirectory folder;
      const std::string path = (folder.path() / "corpus").string();
      CorpusWriter files(
          {.source = "here", .tokenizer = "bytes", .vocabulary = vocabulary, .end_of_text = 256},
          path),
          memory({.source = "here", .vocabulary = vocabulary, .end_of_text = 256});
      RandomStream random(7);
      int64_t learned = 0, size = 0;
      for (const int64_t length : {1, 5, int(section_tokens), 3, int(section_tokens) + 1, 20}) {
        std::vector<int32_t> document;
        std::vector<uint8_t> is_learned;
        for (int64_t i = 0; i < length; ++i) {
          document.push_back(static_cast<int32_t>(random.below(uint32_t(vocabulary))));
          is_learned.push_back(random.below(3) > 0);
          learned += has_prompts ? is_learned.back() : 1;
        }
        document.back() = static_cast<int32_t>(vocabulary - 1);
        size += length;
        if (!has_prompts) is_learned.clear();
        files.add(document, is_learned);
        memory.add(document, is_learned);
      }
      REQUIRE(!fs::exists(path));
      const CorpusPtr a = files.finish(), b = memory.finish();
      require_same(*a, *b);
      require_same(*a, *open_corpora(path).train);
      REQUIRE(a->size() == size);
      REQUIRE(files.learned() == learned);
      REQUIRE(a->is_all_learned() == !has_prompts);
      REQUIRE(fs::exists(fs::path(path) / "learned.bin") == has_prompts);
      REQUIRE(a->documents().ends.size() == 6);
      REQUIRE(a->documents().sections.size() == 7);
      REQUIRE(a->facts().name == "corpus");
      REQUIRE(a->facts().vocabulary == vocabulary);
      REQUIRE(a->facts().end_of_text == 256);
      REQUIRE(a->tokenizer()->size() == 257);
      std::vector<int32_t> part(4);
      a->read(part, 3);
      const std::vector<int32_t> all = tokens_of(*a);
      REQUIRE(std::ranges::equal(part, std::span(all).subspan(3, 4)));
      REQUIRE_ERROR(a->read(part, size - 3), "are not in");
      REQUIRE(fs::file_size(fs::path(path) / "tokens.bin") ==
              uint64_t(size) * (vocabulary > 65'536 ? 4 : 2));
    }
  }
}

TEST_CASE("a corpus that is not finished leaves nothing", "[text]") {
  const TemporaryDirectory folder;
  const std::string path = (folder.path() / "corpus").string();
  {
    CorpusWriter writer({.source = "here", .tokenizer = "bytes", .vocabulary = 257}, path);
    REQUIRE_ERROR(writer.finish(), "here has no documents");
    writer.add(std::vector<int32_t>{1, 2});
    REQUIRE_ERROR(writer.add({}), "no tokens");
    REQUIRE_ERROR(writer.add(std::vector<int32_t>{257}), "token 257 is outside [0, 257)");
    REQUIRE_ERROR(writer.add(std::vector<int32_t>{-1}), "token -1");
  }
  REQUIRE(fs::is_empty(folder.path()));
  folder.write("corpus/mine.txt", "mine");
  REQUIRE_ERROR(CorpusWriter({}, path), "exists and is no empty directory");
}

TEST_CASE("what is no corpus, or damaged, is refused", "[text]") {
  const TemporaryDirectory folder;
  const fs::path path = folder.path() / "corpus";
  CorpusWriter writer({.source = "here", .tokenizer = "bytes", .vocabulary = 10},
                      (folder.path() / "whole").string());
  writer.add(std::vector<int32_t>{1, 2, 3}, std::vector<uint8_t>{0, 1, 1});
  writer.add(std::vector<int32_t>{4, 5});
  writer.finish();
  const auto write = [&] {
    fs::remove_all(path);
    fs::copy(folder.path() / "whole", path);
  };
  const auto refuses = [&](const std::string& part) {
    REQUIRE_ERROR(open_corpora(path), part);
    write();
    open_corpora(path);
  };
  write();
  REQUIRE(holds_corpus(path));
  for (const auto& [name, value, part] : std::vector<std::array<nlohmann::json, 3>>{
           {"version", 3, "is of version 3: expected 1"},
           {"format", nullptr, "does not describe a corpus"},
           {"tokens", 6, "has 10 bytes, expected 12"},
           {"tokens", 4, "has 10 bytes, expected 8"},
           {"tokens", -1, "tokens is -1, expected 1 to"},
           {"tokens", 1e300, "tokens is 1e+300"},
           {"documents", 1, "documents.bin' has 16 bytes, expected 8"},
           {"documents", 7, "documents is 7, expected 1 to 5"},
           {"learned", "4", "learned is \"4\""},
           {"vocabulary", 1ull << 63, "vocabulary is 9223372036854775808"},
           {"vocabulary", 100'000, "tokens.bin' has 10 bytes, expected 20"},
           {"end_of_text", 10, "end_of_text is 10, expected 0 to 9"},
           {"tokenizer", "../x", "tokenizer is '../x'"},
           {"tokenizer", 1, "tokenizer is 1, expected text"},
           {"crc32", nullptr, "crc32 is null"},
           {"crc32", {{"tokens.bin", "xyz"}}, "crc32 of tokens.bin is \"xyz\""}}) {
    INFO(name.dump() << " " << value.dump());
    set_fact(path, name.get<std::string>(), value);
    refuses(part.get<std::string>());
  }
  for (const auto& [file, expected] : std::map<std::string, int>{
           {"tokens.bin", 10}, {"documents.bin", 16}, {"sections.bin", 16}, {"learned.bin", 1}}) {
    for (const bool is_longer : {false, true}) {
      const std::string content = read_file(path / file);
      std::ofstream(path / file) << (is_longer ? content + "x" : content.substr(1));
      refuses(is_longer || expected > 1 ? fmt::format("{}' has {} bytes, expected {}", file,
                                                      expected + (is_longer ? 1 : -1), expected)
                                        : "the file is empty");
    }
    fs::remove(path / file);
    refuses(file);
  }
  for (const auto& [ends, part] : std::vector<std::pair<std::vector<uint64_t>, std::string>>{
           {{3, 3}, "document 1 ends at token 3, expected 4 to 5"},
           {{0, 5}, "document 0 ends at token 0, expected 1 to 5"},
           {{4, 2}, "document 1 ends at token 2"},
           {{3, 4}, "the last document ends at token 4, expected 5"},
           {{3, 1ull << 63}, "ends at token 9223372036854775808"}}) {
    std::ofstream(path / "documents.bin", std::ios::binary)
        .write(reinterpret_cast<const char*>(ends.data()), 16);
    refuses(part);
  }
  std::ofstream(path / "tokens.bin") << std::string("\1\0\2\0\12\0\3\0\4\0", 10);
  REQUIRE_ERROR(tokens_of(*open_corpus(path)), "token number 2 is 10, expected 0 to 9");
  std::ofstream(path / "corpus.json") << "{";
  refuses("is not JSON");
  REQUIRE(!holds_corpus(folder.path()));
  REQUIRE_ERROR(open_corpora(folder.path()), "is no corpus: expected a directory that");
}

TEST_CASE("llm.c's files are read", "[text]") {
  const TemporaryDirectory folder;
  constexpr uint16_t end = 50'256;
  const fs::path one = folder.write("a_train_2.bin", llmc_file({end, 1, 2, end, 3}));
  folder.write("a_train_10.bin", llmc_file({4, 5}));
  REQUIRE(holds_corpus(one));
  REQUIRE(!holds_corpus(folder.path()));
  REQUIRE_ERROR(open_corpora(folder.path()), "*train*.bin and *val*.bin");
  folder.write("a_val_0.bin", llmc_file({7, end}));
  REQUIRE(holds_corpus(folder.path()));
  const Corpora found = open_corpora(folder.path());
  REQUIRE(tokens_of(*found.train) == std::vector<int32_t>{end, 1, 2, end, 3, 4, 5});
  REQUIRE(std::ranges::equal(found.train->documents().ends, std::vector<uint64_t>{1, 4, 5, 7}));
  REQUIRE(found.train->documents().sections.size() == 4);
  REQUIRE(tokens_of(*found.test) == std::vector<int32_t>{7, end});
  REQUIRE(found.train->facts().vocabulary == 50'257);
  std::vector<int32_t> across(3);
  found.train->read(across, 4);
  REQUIRE(across == std::vector<int32_t>{3, 4, 5});
  REQUIRE_ERROR(found.train->tokenizer(), "does not say which tokenizer");
  const Corpora alone = open_corpora(one);
  REQUIRE(tokens_of(*alone.train).size() == 5);
  REQUIRE(alone.test == nullptr);
  REQUIRE(alone.train->checksum() != found.train->checksum());

  const std::vector<uint16_t> tokens{1, 2};
  REQUIRE_ERROR(open_corpora(folder.write("x.bin", llmc_file(tokens, 1))), "begins with 20240520");
  REQUIRE_ERROR(open_corpora(folder.write("x.bin", "short")), "begins with 20240520");
  REQUIRE_ERROR(open_corpora(folder.write("x.bin", llmc_file(tokens, 20240520, 2))), "version 2");
  for (const int32_t said : {3, 1, -7, 0})
    REQUIRE_ERROR(open_corpora(folder.write("x.bin", llmc_file(tokens, 20240520, 1, said))),
                  "says that it holds");
  REQUIRE_ERROR(tokens_of(*open_corpora(folder.write("x.bin", llmc_file({1, 60'000}))).train),
                "token number 1 is 60000, expected 0 to 50256");
}

TEST_CASE("documents in memory are a corpus", "[text]") {
  const std::vector<uint16_t> tokens{1, 2, 3, 4, 5, 6};
  const auto bytes = std::as_bytes(std::span(tokens));
  const std::byte learned{0b110111};
  const auto corpus_of = [&](size_t first, std::span<const std::byte> bits = {}) {
    return corpus_in_memory(
        {.source = "test", .vocabulary = 7},
        {.tokens = {bytes.first(2 * first), bytes.subspan(2 * first)}, .learned = bits});
  };
  const CorpusPtr corpus = corpus_of(2), masked = corpus_of(2, {&learned, 1});
  REQUIRE(tokens_of(*corpus) == std::vector<int32_t>{1, 2, 3, 4, 5, 6});
  REQUIRE(std::ranges::equal(corpus->documents().ends, std::vector<uint64_t>{2, 6}));
  REQUIRE(!masked->is_learned(3));
  REQUIRE(std::set{corpus->checksum(), masked->checksum(), corpus_of(3)->checksum()}.size() == 3);
  check_tokens(*corpus, 7);
  REQUIRE_ERROR(
      check_tokens(*corpus, 4),
      "document 1 of test has the token 4 at 1, but the model knows 4 tokens: expected 0");
  REQUIRE_ERROR(corpus_of(6), "document 1 has no tokens");
  REQUIRE_ERROR(corpus_in_memory({.source = "test"}, {}), "test has no documents");

  // No part of this corpus can be held out. With another corpus for the test, both parts know the
  // tokens of both.
  REQUIRE_ERROR(rows_of({corpus, nullptr}, {2}), "test has no hashes");
  const Datasets sets = rows_of(
      {corpus, corpus_in_memory({.source = "test", .vocabulary = 9}, {.tokens = {bytes}})}, {2});
  REQUIRE(sets.train.field("labels").classes == 9);
  REQUIRE(sets.test.field("tokens").classes == 9);
}

TEST_CASE("names are in the order in which people number them", "[text]") {
  std::vector<std::string> names{"b1", "a10", "a2", "a02", "a", "a2b", "A3", "", "a10b2", "a10b11"};
  std::ranges::sort(names, natural_less);
  REQUIRE(names == std::vector<std::string>{"", "A3", "a", "a02", "a2", "a2b", "a10", "a10b2",
                                            "a10b11", "b1"});
}

}  // namespace accrue::test
