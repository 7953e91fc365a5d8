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

// The setting as an option.
std::string said(const std::string& name, const std::string& value) {
  return value.empty() ? "no --" + name : fmt::format("--{} {}", name, value);
}

std::string expected(const ActsWith::Condition& condition) {
  const bool is_any_other = condition.has == ActsWith::Has::none_of;
  return is_any_other ? fmt::format("another --{}", condition.name)
                      : said(condition.name, CLI::detail::join(condition.values, "|"));
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
  const SettingFacts& about = setting.about;
  if (settings.has_effect(setting)) return;
  std::string is, wanted;
  for (const ActsWith::Case& lacking : settings.lacking(setting)) {
    std::string wanted_together;
    for (const ActsWith::Condition& condition : lacking) {
      const std::string has = said(condition.name, settings.at(condition.name).text());
      if (is.find(has) == is.npos) is += (is.empty() ? "" : " and ") + has;
      wanted_together += (wanted_together.empty() ? "" : " and ") + expected(condition);
    }
    wanted += (wanted.empty() ? "" : " or ") + wanted_together;
  }
  if (settings.has(about.rather) && settings.has_effect(settings.at(about.rather)))
    wanted = "--" + about.rather;
  fail("--{} has no effect with {}: expected {}, or no --{}", about.name, is, wanted, about.name);
}

}  // namespace

void check_given(const std::set<std::string>& given, const Settings& settings) {
  const auto is_asked = [&](const std::string& name) {
    return given.contains(name) && settings.has(name) && is_on(settings.at(name));
  };
  for (const Setting& setting : settings) {
    const SettingFacts& about = setting.about;
    if (!is_asked(about.name)) continue;
    check(about.needs.empty() || is_asked(about.needs), "--{} requires --{}", about.name,
          about.needs);
    check(about.excludes.empty() || !is_asked(about.excludes), "--{} excludes --{}", about.name,
          about.excludes);
    check_effect(setting, settings);
  }
}

}  // namespace accrue::app
