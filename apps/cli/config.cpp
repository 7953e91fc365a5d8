#include "apps/cli/config.h"

#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>

#include "core/error.h"

namespace accrue::app {
namespace {

constexpr std::string_view flag = "--config";

std::string joined(const std::vector<std::string>& parts) { return CLI::detail::join(parts, ","); }

// Which editors on Windows put before UTF-8.
void skip_byte_order_mark(std::istream& file) {
  std::string start(3, '\0');
  file.read(start.data(), 3);
  if (start == "\xef\xbb\xbf") return;
  file.clear();
  file.seekg(0);
}

// The settings in the file as arguments, those that `command` has and `given` does not.
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

bool is_number(const std::string& text) {
  double number = 0;
  return CLI::detail::lexical_cast(text, number);
}

}  // namespace

std::vector<std::pair<std::string, std::string>> settings_in_config(const std::string& path,
                                                                    const Settings& known) {
  check(!std::filesystem::is_directory(path),
        "--config '{}': it is a directory, expected a file such as the config.toml of a log", path);
  std::ifstream file(path);
  check(file.good(), "--config '{}' cannot be read: expected a file with lines such as lr = 0.01",
        path);
  skip_byte_order_mark(file);
  std::vector<std::pair<std::string, std::string>> said;
  try {
    for (const CLI::ConfigItem& item : CLI::ConfigTOML().from_config(file)) {
      if (!item.parents.empty())
        fail("it has the section [{}]: expected lines such as lr = 0.01 alone, without sections",
             CLI::detail::join(item.parents, "."));
      const bool is_flag = known.at(item.name).is_flag;
      const std::string value = joined(item.inputs);
      said.emplace_back(item.name, !is_flag ? value : value == "true" ? "yes" : "no");
    }
  } catch (const std::exception& error) {
    fail("--config {}: {}", path, error.what());
  }
  return said;
}

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
  // The words before the first option name the command.
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

std::string to_toml(const Settings& settings,
                    const std::function<bool(const Setting&)>& is_needed) {
  std::string text = "# What was asked for; the rest, as comments, is what there was besides.\n",
              group;
  for (const Setting& setting : settings) {
    const std::string value = setting.text();
    if (value.empty() || (setting.is_flag && value == "no") || !settings.has_effect(setting))
      continue;
    if (std::exchange(group, setting.group) != setting.group)
      text += fmt::format("\n# {}\n", group);
    const std::string written = setting.is_flag    ? "true"
                                : is_number(value) ? value
                                                   : fmt::format("\"{}\"", value);
    text += fmt::format("{}{} = {}\n", is_needed(setting) ? "" : "# ", setting.about.name, written);
  }
  return text;
}

}  // namespace accrue::app
