// The commands of text.

#include "tests/support/cli.h"
#include "text/corpus.h"

namespace accrue::test {
namespace {

std::string tiny_model() {
  return " --model gpt-tiny --layers 1 --heads 1 --hidden-size 8 --positions 32 ";
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

}  // namespace accrue::test
