#include "apps/cli/suggest.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <sstream>

#include "apps/cli/messages.h"
#include "job/meant.h"

namespace accrue::app {
namespace {

// The innermost subcommand that was given.
const CLI::App& active(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  return chosen.empty() ? app : active(*chosen.front());
}

// "accrue bench train"
std::string path_of(const CLI::App& command) {
  const CLI::App* const parent = command.get_parent();
  return parent ? fmt::format("{} {}", path_of(*parent), command.get_name()) : command.get_name();
}

std::vector<std::string> names_of_commands(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::App* sub : command.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(sub->get_name());
  return names;
}

std::vector<std::string> names_of_options(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back(name);
  return names;
}

bool is_option(const std::string& word) { return word.starts_with("-"); }

// Returns "bench train" for the command accrue bench train.
std::string words_of(const CLI::App& command) {
  return path_of(command).substr(std::string_view("accrue ").size());
}

// The commands that have an option of this name.
std::vector<std::string> commands_with(const CLI::App& command, const std::string& name) {
  std::vector<std::string> found;
  if (command.get_parent() && command.get_option_no_throw("--" + name))
    found.push_back(words_of(command));
  for (const CLI::App* sub : command.get_subcommands([](const CLI::App*) { return true; }))
    for (std::string& words : commands_with(*sub, name)) found.push_back(std::move(words));
  return found;
}

const CLI::App& root_of(const CLI::App& command) {
  return command.get_parent() ? root_of(*command.get_parent()) : command;
}

std::string unknown_option(const CLI::App& command, const std::string& word,
                           const Settings& settings) {
  const std::string option = word.substr(0, word.find('='));
  const std::string name = option.substr(std::min(option.find_first_not_of('-'), option.size()));
  if (const std::string here = known_elsewhere(name, settings); !here.empty())
    return fmt::format("there is no option {}: expected {}", option, here);
  if (const auto elsewhere = commands_with(root_of(command), name); !elsewhere.empty())
    return fmt::format("{} has no option {}, which is for {}", path_of(command), option,
                       alternatives(elsewhere));
  if (const std::string meant = meant_by(name, names_of_options(command), settings); !meant.empty())
    return fmt::format("there is no option {}; did you mean {}?", option, meant);
  return fmt::format("there is no option {}; {} --help-all lists all", option, path_of(command));
}

std::string unknown_command(const CLI::App& parent, const std::string& word) {
  const std::vector<std::string> commands = names_of_commands(parent);
  const std::string said =
      fmt::format("{} {}", path_of(parent), word).substr(std::string_view("accrue ").size());
  const auto nearest = nearest_word(word, commands);
  return fmt::format("there is no command {}{}", said,
                     nearest ? fmt::format("; did you mean {}?", *nearest)
                             : fmt::format(": expected {}", alternatives(commands)));
}

// Describes an option without a value, or with more than one.
std::string miscounted(const CLI::App& command, const CLI::ParseError& error) {
  const std::string what = error.what(), name = what.substr(0, what.find(':'));
  const CLI::Option* const option = command.get_option_no_throw(name);
  if (!option) return what;
  if (option->count() > 1)
    return fmt::format("{} is given {} times: expected once", name, option->count());
  return fmt::format("{} has no value: expected {}", name, option->get_type_name());
}

std::string describe(const CLI::App& command, const CLI::ParseError& error,
                     const Settings& settings) {
  const std::vector<std::string> rest = command.remaining(true);
  const bool is_parent = !names_of_commands(command).empty();
  // The rest also holds the values of unknown options.
  if (const auto option = std::ranges::find_if(rest, is_option); option != rest.end())
    return unknown_option(command, *option, settings);
  if (!rest.empty() && is_parent) return unknown_command(command, rest.front());
  if (!rest.empty() && dynamic_cast<const CLI::ExtrasError*>(&error))
    return fmt::format("'{}' was not expected; {} --help-all lists all", rest.front(),
                       path_of(command));
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error)) return miscounted(command, error);
  if (is_parent && dynamic_cast<const CLI::RequiredError*>(&error))
    return fmt::format("{} needs a command: expected {}", path_of(command),
                       alternatives(names_of_commands(command)));
  return error.what();
}

// The error in the command line; empty if it only asks for help.
std::string problem_of(const CLI::App& app, const CLI::ParseError& error,
                       const SettingsOfCommand& settings_of) {
  const CLI::App& command = active(app);
  if (error.get_exit_code() != 0) return describe(command, error, settings_of(command));
  // The command line asks for help with an unknown command.
  const auto rest = command.remaining(true);
  const bool is_parent = !names_of_commands(command).empty();
  if (is_parent && !rest.empty() && !is_option(rest.front()))
    return unknown_command(command, rest.front());
  return {};
}

}  // namespace

int report(const CLI::App& app, const CLI::ParseError& error,
           const SettingsOfCommand& settings_of) {
  const std::string problem = problem_of(app, error, settings_of);
  if (problem.empty()) {
    std::ostringstream help, errors;
    const int status = app.exit(error, help, errors);
    say("{}", help.str());
    say_error("{}", errors.str());
    return status;
  }
  say_error("accrue: error: {}\n", problem);
  return 2;
}

}  // namespace accrue::app
