#include "apps/cli/declare.h"

#include <CLI/CLI.hpp>

#include "core/error.h"
#include "core/inside.h"

namespace accrue::app {
namespace {

void set(const Setting& setting, const std::string& text) {
  try {
    setting.give(text);
  } catch (const Error& error) {
    throw CLI::ValidationError("--" + std::string(error.what()));
  }
}

CLI::Option* declare(CLI::App& command, const Setting& setting) {
  const SettingFacts& about = setting.about;
  std::string names = "--" + about.name;
  if (!about.alias.empty()) names += ",--" + about.alias;
  if (setting.is_flag)
    return command.add_flag_function(
        names, [setting](int64_t said) { set(setting, said > 0 ? "yes" : "no"); }, about.help);
  const std::string value = setting.text();
  CLI::Option* const option =
      setting.is_list
          ? command.add_option_function<std::vector<std::string>>(
                names,
                [setting](const std::vector<std::string>& parts) {
                  set(setting, CLI::detail::join(parts, ","));
                },
                about.help)
          : command.add_option_function<std::string>(
                names, [setting](const std::string& text) { set(setting, text); }, about.help);
  return option->type_name(about.takes)->default_str(value.empty() ? about.unset : value);
}

}  // namespace

void declare(CLI::App& command, const Settings& settings) {
  for (const Setting& setting : settings) declare(command, setting)->group(setting.group);
  for (const Setting& setting : settings) {
    CLI::Option* const option = command.get_option("--" + setting.about.name);
    if (!setting.about.needs.empty()) option->needs("--" + setting.about.needs);
    if (!setting.about.excludes.empty()) option->excludes("--" + setting.about.excludes);
  }
}

std::set<std::string> given_settings(const CLI::App& command, const Settings& settings) {
  std::set<std::string> given;
  for (const Setting& setting : settings)
    if (command.count("--" + setting.about.name) > 0) given.insert(setting.about.name);
  return given;
}

}  // namespace accrue::app
