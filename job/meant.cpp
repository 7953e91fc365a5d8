#include "job/meant.h"

#include <fmt/format.h>

namespace accrue {
namespace {

// The names that begin or end with the words `name`, as options: --keep-best for keep.
std::vector<std::string> options_around(const std::vector<std::string>& names,
                                        const std::string& name) {
  std::vector<std::string> found;
  for (const std::string& longer : names)
    if (longer.starts_with(name + "-") || longer.ends_with("-" + name))
      found.push_back("--" + longer);
  return found;
}

}  // namespace

std::string known_elsewhere(const std::string& name, const Settings& settings) {
  std::string text;
  for (const Setting& setting : settings)
    if (const auto found = setting.about.elsewhere.find(name);
        found != setting.about.elsewhere.end())
      text +=
          fmt::format("{}--{}{}", text.empty() ? "" : ", or ", setting.about.name, found->second);
  return text;
}

std::string alternatives(const std::vector<std::string>& words) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : i + 1 < words.size() ? ", " : " or ", words[i]);
  return text;
}

std::string meant_by(const std::string& name, const std::vector<std::string>& names,
                     const Settings& settings) {
  if (std::string here = known_elsewhere(name, settings); !here.empty()) return here;
  if (const auto longer = options_around(names, name); !longer.empty() && longer.size() <= 3)
    return alternatives(longer);
  const auto nearest = nearest_word(name, names);
  return nearest ? "--" + *nearest : std::string();
}

}  // namespace accrue
