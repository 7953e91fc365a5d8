#include "apps/cli/declare.h"

#include <CLI/CLI.hpp>

#include "core/error.h"

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
  const About& about = setting.about;
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

namespace {

bool is_on(const Setting& setting) { return !setting.is_flag || setting.text() == "yes"; }

void check_effect(const Setting& setting, const Settings& settings) {
  const About& about = setting.about;
  if (settings.has_effect(setting)) return;
  std::string is, wanted;
  for (const auto& [other, values] : about.acts_with) {
    const std::string text = settings.at(other).text();
    is += fmt::format("{}--{} {}", is.empty() ? "" : " and ", other, text.empty() ? "1" : text);
    wanted += fmt::format("{}--{} {}", wanted.empty() ? "" : " or ", other,
                          CLI::detail::join(values, "|"));
  }
  if (!about.rather.empty()) wanted = "--" + about.rather;
  fail("--{} has no effect with {}: expected {}, or no --{}", about.name, is, wanted, about.name);
}

}  // namespace

void check_given(const std::set<std::string>& given, const Settings& settings) {
  const auto is_asked = [&](const std::string& name) {
    return given.contains(name) && settings.has(name) && is_on(settings.at(name));
  };
  for (const Setting& setting : settings) {
    const About& about = setting.about;
    if (!is_asked(about.name)) continue;
    check(about.needs.empty() || is_asked(about.needs), "--{} requires --{}", about.name,
          about.needs);
    check(about.excludes.empty() || !is_asked(about.excludes), "--{} excludes --{}", about.name,
          about.excludes);
    check_effect(setting, settings);
  }
}

}  // namespace accrue::app
