// The commands of text.

#include "tests/support/cli.h"
#include "text/corpus.h"

namespace accrue::test {
namespace {

std::string tiny_model() {
  return " --model gpt-tiny --layers 1 --heads 1 --hidden-size 8 --positions 32 ";
}

// 40 documents, half of which are for the test.
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
  // Not over what is there, nor into what is read.
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

TEST_CASE("a corpus says which part of it is held out", "[text]") {
  const Folder folder;
  const std::string data = small_corpus(folder);
  const std::string training = "train --steps 1 --micro-batch 2 --accum 1" + data + tiny_model();
  const std::string text = succeed(training);
  // A row of each document's first 16 tokens, and one of the rest.
  int rows = 0, held_out = 0;
  const size_t at = text.find("corpus: ", text.find("parameters |"));
  REQUIRE(std::sscanf(text.c_str() + at, "corpus: %d training and %d test", &rows, &held_out) == 2);
  REQUIRE(rows + held_out >= 80);
  REQUIRE(held_out >= 20);
  REQUIRE(held_out <= 60);
  refuse(training + " --hold-out 0.2", "expected it of `accrue text prepare`");
  refuse("text prepare --hold-out 1 --text x --out y", "--hold-out");
}

}  // namespace accrue::test
