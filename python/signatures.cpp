#include "python/signatures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>
#include <vector>

namespace accrue::python {
namespace {

// "--class-weights" becomes class_weights, and "accrue info" stays.
std::string with_arguments(const std::string& help) {
  std::string text;
  for (size_t at = 0; at < help.size();) {
    const bool begins = help.compare(at, 2, "--") == 0 && (at == 0 || help[at - 1] != '-');
    if (!begins) {
      text += help[at++];
      continue;
    }
    at += 2;
    while (at < help.size() && (std::isalnum(static_cast<unsigned char>(help[at])) != 0 ||
                                (help[at] == '-' && at + 1 < help.size() &&
                                 std::isalnum(static_cast<unsigned char>(help[at + 1])) != 0)))
      text += help[at] == '-' ? '_' : help[at], ++at;
  }
  return text;
}

// A text that begins with one of the setting's words, or a value, stays as it is after "With".
std::string begun(const std::string& help) {
  const bool is_lower = !help.empty() && std::islower(static_cast<unsigned char>(help[0])) != 0;
  return (is_lower ? "With " : "") + help;
}

std::string annotation_of(const Setting& setting) {
  const std::string& name = setting.about.name;
  if (name == "loss") return "str | typing.Mapping[str, typing.Any] | accrue._losses.Loss";
  if (name == "init") return "str | os.PathLike[str] | typing.Mapping[str, typing.Any]";
  if (name == "tokenizer") return "typing.Any";
  return type_of(setting);
}

// "Factor on hidden sizes and channels. NUMBER above 0; by default 1."
std::string help_of(const Setting& setting, bool is_own = false) {
  const accrue::SettingFacts& about = setting.about;
  const std::string value = setting.text();
  const std::string by_default = setting.is_flag || value.empty() ? about.unset : value;
  const bool is_told = setting.is_flag || (setting.holds == Holds::choice && !is_own) ||
                       std::string(about.takes).find_first_of(" |,=[") == std::string::npos;
  std::string takes = about.takes;
  if (takes.size() > 60)  // many names, for which a line is too short
    for (size_t at = 0; (at = takes.find('|', at)) != std::string::npos; at += 2)
      takes.replace(at, 1, ", ");
  std::string last = is_told ? "" : "Expected: " + takes;
  if (!by_default.empty()) last += (last.empty() ? "By default " : "; by default ") + by_default;
  std::string text = is_own ? "By name: " + std::string(about.help) : begun(about.help);
  if (!text.ends_with('.')) text += '.';
  if (last.ends_with(",...")) last.resize(last.size() - 4), last += " and so on";
  return with_arguments(last.empty() ? text : text + " " + last + ".");
}

}  // namespace

FunctionDoc FunctionDocs::of(const Door& door, FunctionText function) const {
  Docstring& doc = function.doc;
  std::string signature = "def " + function.name + "(";
  bool has_keywords = false;
  for (const OwnArgument& argument : function.arguments) {
    if (signature.back() != '(') signature += ", ";
    has_keywords |= argument.name == "*";
    signature += argument.name;
    if (argument.annotation.empty()) continue;  // self, *
    signature += ": " + argument.annotation;
    if (!argument.value.empty()) signature += " = " + argument.value;
    doc.parameters.push_back(
        {argument.name, argument.type.empty() ? shown_type(argument.annotation) : argument.type,
         argument.text});
  }
  if (!has_keywords) signature += ", *";
  const auto command = std::ranges::find(commands_, door.command, &app::Command::name);
  std::string group, names;
  for (const Setting& setting : command->settings) {
    const std::string name = argument_name(setting.about.name);
    if (door.has_own(setting))
      for (ArgumentDoc& own : doc.parameters)
        if (own.name == name) own.text += "\n" + help_of(setting, true);
    if (!door.has(setting)) continue;
    const std::string annotation = annotation_of(setting) + " | None";
    signature += ", " + name + ": " + annotation + " = None";
    const bool is_any = annotation.starts_with("typing.Any");
    doc.others.push_back({name,
                          is_any ? "str, path or tokenizer, optional" : shown_type(annotation),
                          help_of(setting)});
    if (std::exchange(group, setting.group) != setting.group)
      doc.notes += (names.empty() ? "" : "\n") + setting.group + ":\n", names.clear();
    if (names.size() + name.size() > 80) doc.notes += "\n", names.clear();
    names += (names.empty() ? "    " : ", ") + name;
    doc.notes += (names.size() == name.size() + 4 ? "    " : ", ") + name;
  }
  doc.notes = "The other parameters are the options of ``accrue " + door.command +
              "``; None means the\nprogram's default. By subject they are\n\n" + doc.notes + "\n";
  doc.others.push_back({"config", "str | path, optional",
                        "Read settings from this TOML file; arguments override it."});
  signature += ", config: str | os.PathLike[str] | None = None";
  if (function.returned != "None") doc.returned = shown_type(function.returned);
  if (doc.raises.empty())
    doc.raises =
        "For arguments that are empty, unknown, of a wrong type or without effect beside the "
        "others. It says what came and what was expected. OutOfMemory is one, too.";
  return {lasting(signature + ") -> " + function.returned), lasting(doc.text())};
}

}  // namespace accrue::python
