#include "apps/cli/suggest.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <numeric>

namespace accrue::app {
namespace {

// Levenshtein distance.
size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substitute = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, substitute}));
    }
  }
  return row[b.size()];
}

// The innermost subcommand that was given.
const CLI::App& active(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  return chosen.empty() ? app : active(*chosen.front());
}

std::vector<std::string> known_words(const CLI::App& command) {
  std::vector<std::string> words;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) words.push_back("--" + name);
  for (const CLI::App* sub : command.get_subcommands([](const CLI::App*) { return true; }))
    words.push_back(sub->get_name());
  return words;
}

}  // namespace

int report(const CLI::App& app, const CLI::ParseError& error) {
  const int status = app.exit(error);
  if (status == 0) return 0;
  const CLI::App& command = active(app);
  for (std::string word : command.remaining(true)) {
    word = word.substr(0, word.find('='));
    const auto words = known_words(command);
    const auto nearest = std::ranges::min_element(
        words, {}, [&](const std::string& known) { return edit_distance(word, known); });
    if (nearest != words.end() && edit_distance(word, *nearest) <= 1 + word.size() / 3)
      fmt::print(stderr, "did you mean {} instead of {}?\n", *nearest, word);
  }
  return 2;
}

}  // namespace accrue::app
