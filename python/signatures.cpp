#include "python/signatures.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

namespace accrue::python {
namespace {

const char* kept(std::string text) {
  static std::vector<std::unique_ptr<std::string>> texts;
  texts.push_back(std::make_unique<std::string>(std::move(text)));
  return texts.back()->c_str();
}

}  // namespace

FunctionDoc FunctionDocs::of(const Door& door, const std::string& definition,
                             const std::string& returned, const std::string& text) const {
  const auto command = std::ranges::find(commands_, door.command, &app::Command::name);
  std::string signature = definition, doc = text, group;
  doc += "\n\nThe options of `accrue " + door.command + "`; None means the program's default:\n";
  for (const Setting& setting : command->settings) {
    const accrue::SettingFacts& about = setting.about;
    if (!door.has(setting) && !door.has_own(setting)) continue;
    const std::string name = argument_name(about.name), value = setting.text();
    if (door.has(setting))
      signature += fmt::format(", {}: {} | None = None", name, type_of(setting));
    if (std::exchange(group, setting.group) != setting.group) doc += "\n" + setting.group + "\n";
    const std::string shown = setting.is_flag || value.empty() ? about.unset : value;
    doc += fmt::format("  {}: {}{}\n    {}\n", name, setting.is_flag ? "bool" : about.takes,
                       shown.empty() ? "" : " = " + shown, about.help);
  }
  signature += ", config: str | os.PathLike[str] | None = None";
  doc += "\n  config: FILE.toml\n    Read settings from this file; arguments override it\n";
  return {kept(signature + ") -> " + returned), kept(doc)};
}

}  // namespace accrue::python
