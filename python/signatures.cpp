#include "python/signatures.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

namespace accrue::python {
namespace {

// An option's type in Python, by what the program says that it takes.
std::string type_of(const app::OptionHelp& option) {
  if (option.is_flag) return "bool";
  const std::string& takes = option.takes;
  if (takes.starts_with("INTEGER")) return "int";
  if (takes.find(",...") != std::string::npos) return "str | float | typing.Sequence[typing.Any]";
  if (option.name == "init") return "str | os.PathLike[str] | accrue._results.Weights";
  if (takes.starts_with("NUMBER")) return "float";
  if (takes.starts_with("N|")) return "int | str";
  if (takes.starts_with("FILE") || takes.starts_with("DIR")) return "str | os.PathLike[str]";
  return takes.find('|') == std::string::npos ? "typing.Any" : "str";
}

bool is_among(const std::string& name, std::initializer_list<const char*> names) {
  return std::ranges::find(names, name) != names.end();
}

const char* kept(std::string text) {
  static std::vector<std::unique_ptr<std::string>> texts;
  texts.push_back(std::make_unique<std::string>(std::move(text)));
  return texts.back()->c_str();
}

}  // namespace

About about(const AllOptions& options, const std::string& command, const std::string& definition,
            const std::string& returned, const std::string& text,
            std::initializer_list<const char*> own) {
  std::string signature = definition, doc = text, group;
  doc += "\n\nThe options of `accrue " + command + "`, None for the program's own value:\n";
  for (const app::OptionHelp& option : options.at(command)) {
    const bool is_own = is_among(option.name, own);
    if (option.name == "quiet" || (is_own && !is_among(option.name, {"model", "data"}))) continue;
    std::string name = option.name;
    std::ranges::replace(name, '-', '_');
    if (!is_own) signature += fmt::format(", {}: {} | None = None", name, type_of(option));
    if (std::exchange(group, option.group) != option.group) doc += "\n" + option.group + "\n";
    doc += fmt::format("  {}: {}{}\n    {}\n", name, option.is_flag ? "bool" : option.takes,
                       option.value.empty() ? "" : " = " + option.value, option.help);
  }
  return {kept(signature + ") -> " + returned), kept(doc)};
}

}  // namespace accrue::python
