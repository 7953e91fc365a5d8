#include "apps/cli/suggest.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <iostream>

#include "train/settings.h"

namespace accrue::app {
namespace {

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
    if (const auto nearest = nearest_word(word, known_words(command)))
      fmt::print(stderr, "did you mean {} instead of {}?\n", *nearest, word);
  }
  return 2;
}

}  // namespace accrue::app
