#include "text/grammar.h"

#include <set>
#include <sstream>

#include "core/inside.h"
#include "tests/support/catch.h"

namespace accrue::test {
namespace {

// True if every bracket closes the one that was opened last.
bool is_balanced(const std::string& text) {
  std::string open;
  for (const char c : text) {
    if (c == '(') open += ')';
    if (c == '[') open += ']';
    if (c == '{') open += '}';
    if (c == ')' || c == ']' || c == '}') {
      if (open.empty() || open.back() != c) return false;
      open.pop_back();
    }
  }
  return open.empty();
}

}  // namespace

TEST_CASE("the grammar's documents have the form that it promises", "[text]") {
  REQUIRE(
      grammar_document(Split::train, 3, 1) ==
      "Some bakers behind the rivers are late! The goose is happy. Some tired farmers that this "
      "thief across every strange stone knows find two gardens. Some sailors near some towers "
      "love every tired painter.");
  std::set<std::string> all;
  int64_t with_brackets = 0, nested = 0;
  for (const Split split : {Split::train, Split::test})
    for (int64_t i = 0; i < 500; ++i) {
      const std::string text = grammar_document(split, i, 1);
      bool ok = 50 <= text.size() && text.size() <= 300 && is_balanced(text);
      for (const char c : text) ok &= ' ' <= c && c <= '~';
      INFO(text);
      REQUIRE(ok);
      with_brackets += text.find_first_of("([{") != text.npos;
      const size_t open = text.find_first_of("([{");
      nested += open != text.npos &&
                text.find_first_of("([{", open + 1) < text.find_first_of(")]}", open + 1);
      all.insert(text);
    }
  REQUIRE(all.size() == 1000);
  REQUIRE(with_brackets > 200);
  REQUIRE(nested > 50);
  REQUIRE(grammar_document(Split::train, 0, 2) != grammar_document(Split::train, 0, 1));
}

TEST_CASE("the grammar is a corpus", "[text]") {
  const Corpora corpora = grammar_corpora({.train_size = 20, .test_size = 5});
  REQUIRE(corpora.train->documents().ends.size() == 20);
  REQUIRE(corpora.test->documents().ends.size() == 5);
  std::vector<int32_t> tokens(corpora.test->documents().ends[0]);
  corpora.test->read(tokens, 0);
  REQUIRE(tokens.back() == corpora.test->facts().end_of_text);
  REQUIRE(corpora.test->tokenizer()->decode(tokens) == grammar_document(Split::test, 0, 1));
  REQUIRE_ERROR(grammar_corpora({.train_size = 0}), "needs at least 1 document, got 0");
}

}  // namespace accrue::test
