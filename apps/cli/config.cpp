#include "apps/cli/config.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "core/inside.h"
#include "job/config.h"

namespace accrue::app {
namespace {

constexpr std::string_view flag = "--config";

// The file's settings as arguments, if `command` has them and `given` does not.
std::vector<std::string> read_arguments(const std::string& path, const Settings& known,
                                        const CLI::App& command,
                                        const std::vector<std::string>& given) {
  const auto is_given = [&](const std::string& option) {
    return std::ranges::any_of(given, [&](const std::string& argument) {
      return argument == option || argument.starts_with(option + "=");
    });
  };
  std::vector<std::string> arguments;
  for (const auto& [name, value] : settings_in_config(path, known)) {
    const std::string option = "--" + name;
    if (is_given(option) || command.get_option_no_throw(option) == nullptr) continue;
    if (!known.at(name).is_flag) arguments.push_back(option + "=" + value);
    else if (value == "yes") arguments.push_back(option);
  }
  return arguments;
}

}  // namespace

std::vector<std::string> with_config(const std::vector<std::string>& arguments,
                                     const Settings& known, const CLI::App& app) {
  std::vector<std::string> rest;
  std::string path;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == flag && i + 1 < arguments.size()) path = arguments[++i];
    else if (arguments[i].starts_with(std::string(flag) + "="))
      path = arguments[i].substr(flag.size() + 1);
    else rest.push_back(arguments[i]);
  }
  if (path.empty()) return arguments;
  // The words before the first option are the command's name.
  const CLI::App* command = &app;
  size_t words = 0;
  while (words < rest.size()) {
    const auto next = command->get_subcommands(
        [&](const CLI::App* sub) { return sub->get_name() == rest[words]; });
    if (next.empty()) break;
    command = next.front();
    ++words;
  }
  const auto read = read_arguments(path, known, *command, rest);
  const auto after_command = rest.begin() + static_cast<std::ptrdiff_t>(words);
  const auto first = rest.insert(after_command, read.begin(), read.end());
  if (command->get_option_no_throw(std::string(flag)))
    rest.insert(first, fmt::format("{}={}", flag, path));
  return rest;
}

}  // namespace accrue::app
