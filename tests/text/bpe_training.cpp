#include "text/bpe_training.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tests/support/catch.h"
#include "tests/support/files.h"
#include "text/tokenizer_file.h"

namespace accrue::test {
namespace {

using nlohmann::json;

WordCounts counts_of(std::string_view text) {
  WordCounts words;
  words.add(text);
  return words;
}

// Sentences with many equally frequent pairs, and with characters of two and three bytes.
std::string text_to_learn() {
  const std::vector<std::string> nouns{"cat",    "cats",   "caf\u00e9", "\u732b",
                                       "banana", "aaaaaa", "12"};
  std::string text;
  for (int i = 0; i < 400; ++i)
    text += fmt::format("The {} sees{}the {}'s {}.\n", nouns[size_t(i) % 7], i % 3 ? " " : "   ",
                        nouns[size_t(i * i) % 7], nouns[size_t(i) / 3 % 7]);
  return text;
}

}  // namespace

TEST_CASE("the most frequent pairs are merged first", "[text]") {
  // "ab" occurs five times, " d" and "abc" twice each. A space has a smaller number than "ab".
  const json file = json::parse(train_bpe(counts_of("abc\nabc\nab\nab\nab d d"), 260));
  REQUIRE(file["model"]["merges"] == json{"a b", "\u0120 d", "ab c"});
  REQUIRE(file["model"]["vocab"]["ab"] == 256);
  REQUIRE(file["model"]["vocab"]["!"] == 0);
  REQUIRE(file["model"]["vocab"]["<|endoftext|>"] == 259);
  // In "aa aa a" the pair "aa a" is merged first, because a has a smaller number than aa.
  const json run = json::parse(train_bpe(counts_of("aaaaa"), 1000));
  REQUIRE(run["model"]["merges"] == json{"a a", "aa a", "aa aaa"});
  REQUIRE(run["model"]["vocab"].size() == 260);
  REQUIRE_ERROR(train_bpe(WordCounts(), 256), "a vocabulary of 256 tokens: expected at least 257");
}

TEST_CASE("what was learnt encodes the text in fewer tokens", "[text]") {
  const std::string text = text_to_learn();
  const TemporaryDirectory directory;
  const auto path = directory.write("tokenizer.json", train_bpe(counts_of(text), 280));
  const TokenizerPtr bpe = read_tokenizer(path);
  REQUIRE(bpe->size() == 280);
  REQUIRE(bpe->end_of_text() == 279);
  const std::vector<int32_t> tokens = bpe->encode(text);
  REQUIRE(tokens.size() < text.size() / 2);
  REQUIRE(bpe->decode(tokens) == text);
}

}  // namespace accrue::test
