#include "job/checks.h"

#include <fmt/ranges.h>

#include "core/error.h"
#include "job/load_data.h"
#include "job/machine.h"

namespace accrue {
namespace {

// The setting written as an option.
std::string said(const std::string& name, const std::string& value) {
  return value.empty() ? "no --" + name : fmt::format("--{} {}", name, value);
}

std::string expected(const ActsWith::Condition& condition) {
  const bool is_any_other = condition.has == ActsWith::Has::none_of;
  return is_any_other ? fmt::format("another --{}", condition.name)
                      : said(condition.name, fmt::format("{}", fmt::join(condition.values, "|")));
}

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

// The caller's own setting may have the same name as a setting that weights record, such as the
// base of adapters. If so, the user gave the caller's own.
Request with_what_is_not_given(Request request, const Settings& settings, const Notices& notices) {
  const std::set<std::string> given = request.given;
  const Settings of_networks = settings_of(request);
  std::erase_if(request.given, [&](const std::string& name) {
    return settings.has(name) && of_networks.has(name) &&
           settings.at(name).about.saved != of_networks.at(name).about.saved;
  });
  request = with_settings_of_weights(request, notices);
  request.given = given;
  return request;
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

void resolve(Request& request, const Settings& settings, const std::set<std::string>& passed_over,
             int64_t processes, Paths paths, const Notices& notices) {
  request = with_what_is_not_given(request, settings, notices);
  check_given(request.given, settings);
  const Settings heeded = settings.where(
      [&](const Setting& setting) { return !passed_over.contains(setting.about.name); });
  check_machine(request, heeded, processes);
  add_paths(paths, heeded, request.domains);
  paths.refuse_overwriting();
}

}  // namespace accrue
