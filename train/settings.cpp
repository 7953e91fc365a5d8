#include "train/settings.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <memory>
#include <numeric>

#include "core/error.h"
#include "core/inside.h"

namespace accrue {
namespace {

// Levenshtein distance.
size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substitute = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, substitute}));
    }
  }
  return row[b.size()];
}

std::string did_you_mean(const std::string& word, const std::vector<std::string>& words) {
  const std::optional<std::string> nearest = nearest_word(word, words);
  return nearest ? fmt::format("; did you mean {}?", *nearest) : std::string();
}

bool equal_but_for_case(const std::string& a, const std::string& b) {
  return std::ranges::equal(
      a, b, [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

[[noreturn]] void refuse(const SettingFacts& about, const std::string& text,
                         const std::string& expected) {
  fail("{} is {}: expected {}", about.name, text.empty() ? "empty" : text, expected);
}

// For each type of field: the type's name, and conversion of values to and from text.

template <class T>
const char* type_name(const T&) {
  return std::is_integral_v<T> ? "INTEGER" : "NUMBER";
}
const char* type_name(const std::string&) { return "TEXT"; }

template <class T>
std::string text_of(const T& number, const SettingFacts& about) {
  for (const auto& [word, meaning] : about.words)
    if (static_cast<T>(meaning) == number) return word;
  return fmt::format("{}", number);
}
std::string text_of(const std::string& value, const SettingFacts&) { return value; }

template <class T>
void set(T& number, const std::string& text, const SettingFacts& about) {
  for (const auto& [word, meaning] : about.words)
    if (equal_but_for_case(word, text)) return void(number = static_cast<T>(meaning));
  const char* const end = text.data() + text.size();
  const auto [stop, problem] = std::from_chars(text.data(), end, number);
  const bool is_number = problem == std::errc() && stop == end && number == number;
  if (is_number && about.range.has(static_cast<double>(number))) return;
  std::string expected = std::is_integral_v<T> ? "a whole number" : "a number";
  if (const std::string range = about.range.describe(); !range.empty())
    expected += (about.range.without_low ? " " : ", ") + range;
  for (const auto& word : about.words) expected += ", or " + word.first;
  refuse(about, text, expected);
}
void set(std::string& value, const std::string& text, const SettingFacts&) { value = text; }

template <class T>
const char* type_name(const std::optional<T>&) {
  return type_name(T());
}
template <class T>
std::string text_of(const std::optional<T>& value, const SettingFacts& about) {
  return value ? text_of(*value, about) : std::string();
}
template <class T>
void set(std::optional<T>& value, const std::string& text, const SettingFacts& about) {
  set(value.emplace(), text, about);
}

template <class T>
const char* type_name(const std::vector<T>&) {
  return type_name(T());
}
template <class T>
std::string text_of(const std::vector<T>& values, const SettingFacts& about) {
  std::vector<std::string> texts;
  for (const T& value : values) texts.push_back(text_of(value, about));
  return fmt::format("{}", fmt::join(texts, ","));
}
template <class T>
void set(std::vector<T>& values, const std::string& text, const SettingFacts& about) {
  if (text.empty()) return;  // an empty list
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    set(values.emplace_back(), text.substr(begin, end - begin), about);
    begin = end + 1;
  }
}

template <class T>
constexpr Holds held(const T&) {
  return std::is_integral_v<T> ? Holds::whole_number : Holds::number;
}
constexpr Holds held(const std::string&) { return Holds::text; }
template <class T>
constexpr Holds held(const std::optional<T>&) {
  return held(T());
}
template <class T>
constexpr Holds held(const std::vector<T>&) {
  return held(T());
}

template <class T>
constexpr bool is_list = false;
template <class T>
constexpr bool is_list<std::vector<T>> = true;

}  // namespace

std::string Interval::describe() const {
  const bool has_low = low > -std::numeric_limits<double>::infinity();
  const bool has_high = high < std::numeric_limits<double>::infinity();
  if (has_low && has_high)
    return without_low ? fmt::format("above {} and up to {}", low, high)
                       : fmt::format("{} to {}", low, high);
  if (has_low) return without_low ? fmt::format("above {}", low) : fmt::format("{} or more", low);
  return has_high ? fmt::format("{} or less", high) : std::string();
}

std::vector<std::string> Setting::choices() const {
  std::vector<std::string> words;
  if (holds != Holds::choice) return words;
  for (size_t begin = 0; begin <= about.takes.size();) {
    const size_t end = std::min(about.takes.find('|', begin), about.takes.size());
    words.push_back(about.takes.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

void Setting::give(const std::string& text) const {
  if (text.empty()) refuse(about, text, about.takes);
  set(text);
}

bool Setting::acts_with(const std::string& name) const {
  return std::ranges::any_of(about.acts_with.cases, [&](const ActsWith::Case& each) {
    return std::ranges::find(each, name, &ActsWith::Condition::name) != each.end();
  });
}

Settings& Settings::group(std::string heading) {
  group_ = std::move(heading);
  return *this;
}

template <class T>
Settings& Settings::add(T& field, SettingFacts about) {
  if (about.takes.empty()) {
    const std::string range = about.range.describe();
    about.takes = fmt::format("{}{}{}", type_name(field), range.empty() ? "" : " ", range);
  }
  const auto shared = std::make_shared<const SettingFacts>(about);
  return push({.about = std::move(about),
               .holds = held(field),
               .is_list = is_list<T>,
               .text = [&field, shared] { return text_of(field, *shared); },
               .set =
                   [&field, shared](const std::string& text) {
                     T value{};
                     accrue::set(value, text, *shared);
                     field = std::move(value);
                   }});
}
template Settings& Settings::add(double&, SettingFacts);
template Settings& Settings::add(int64_t&, SettingFacts);
template Settings& Settings::add(uint64_t&, SettingFacts);
template Settings& Settings::add(std::string&, SettingFacts);
template Settings& Settings::add(std::optional<double>&, SettingFacts);
template Settings& Settings::add(std::optional<int64_t>&, SettingFacts);
template Settings& Settings::add(std::optional<uint64_t>&, SettingFacts);
template Settings& Settings::add(std::vector<double>&, SettingFacts);
template Settings& Settings::add(std::vector<int64_t>&, SettingFacts);
template Settings& Settings::add(std::vector<std::string>&, SettingFacts);

Settings& Settings::add_choice(std::function<int()> get, std::function<void(int)> set,
                               std::map<std::string, int> values, SettingFacts about) {
  std::vector<std::string> names;
  for (const auto& entry : values) names.push_back(entry.first);
  about.takes = fmt::format("{}", fmt::join(names, "|"));
  // The data that copies of a table share.
  struct Choice {
    SettingFacts about;
    std::map<std::string, int> values;
    std::vector<std::string> names;
  };
  const auto shared =
      std::make_shared<const Choice>(Choice{about, std::move(values), std::move(names)});
  return push({.about = std::move(about),
               .holds = Holds::choice,
               .text =
                   [get, shared] {
                     for (const auto& [name, value] : shared->values)
                       if (value == get()) return name;
                     return std::string();
                   },
               .set =
                   [set, shared](const std::string& text) {
                     for (const auto& [name, value] : shared->values)
                       if (equal_but_for_case(name, text)) return set(value);
                     refuse(shared->about, text,
                            fmt::format("{}{}", fmt::join(shared->names, ", "),
                                        did_you_mean(text, shared->names)));
                   }});
}

Settings& Settings::add(std::string& field, const std::vector<std::string>& choices,
                        SettingFacts about) {
  std::map<std::string, int> values;
  for (size_t i = 0; i < choices.size(); ++i) values[choices[i]] = static_cast<int>(i);
  return add_choice([&field, values] { return values.contains(field) ? values.at(field) : -1; },
                    [&field, choices](int i) { field = choices[static_cast<size_t>(i)]; }, values,
                    std::move(about));
}

Settings& Settings::add_flag(bool& field, bool on, SettingFacts about) {
  const auto shared = std::make_shared<const SettingFacts>(about);
  return push({.about = std::move(about),
               .is_flag = true,
               .text = [&field, on] { return field == on ? "yes" : "no"; },
               .set =
                   [&field, on, shared](const std::string& text) {
                     if (text != "yes" && text != "no") refuse(*shared, text, "yes or no");
                     field = (text == "yes") == on;
                   }});
}

Settings& Settings::append(const Settings& others) { return append(Settings(others)); }

Settings& Settings::append(Settings&& others) {
  std::ranges::move(others.all_, std::back_inserter(all_));
  return *this;
}

namespace {

// The first setting, which also sets the second, and has an effect where either has one.
Setting together(Setting first, const Setting& second) {
  SettingFacts& about = first.about;
  const SettingFacts& other = second.about;
  first.set = [a = first.set, b = second.set](const std::string& text) {
    a(text);
    b(text);
  };
  if (other.help != about.help) about.help += ". " + other.help;
  if (about.acts_with.cases.empty() || other.acts_with.cases.empty()) about.acts_with = {};
  else about.acts_with = about.acts_with || other.acts_with;
  if (about.data.empty() || other.data.empty()) about.data.clear();
  else if (other.data != about.data) about.data += " or " + other.data;
  return first;
}

}  // namespace

Settings& Settings::append_later(const Settings& others) {
  std::erase_if(all_, [&](const Setting& setting) {
    const std::string& name = setting.about.name;
    return others.has(name) && !others.at(name).about.with_namesake;
  });
  for (Setting& setting : all_)
    if (others.has(setting.about.name))
      setting = together(std::move(setting), others.at(setting.about.name));
  for (const Setting& later : others)
    if (!later.about.with_namesake || !has(later.about.name)) all_.push_back(later);
  return *this;
}

bool Settings::has(const std::string& name) const {
  return std::ranges::any_of(all_, [&](const Setting& s) { return s.about.name == name; });
}

bool ActsWith::Condition::is_met_by(const std::string& value) const {
  const bool is_there = std::ranges::any_of(values, [&](const std::string& each) {
    return each.starts_with("*") ? value.ends_with(each.substr(1)) : each == value;
  });
  return is_there == (has == Has::one_of);
}

std::vector<ActsWith::Case> Settings::lacking(const Setting& setting) const {
  std::vector<ActsWith::Case> all;
  for (const ActsWith::Case& each : setting.about.acts_with.cases) {
    ActsWith::Case& unmet = all.emplace_back();
    for (const ActsWith::Condition& condition : each)
      if (has(condition.name) && !condition.is_met_by(at(condition.name).text()))
        unmet.push_back(condition);
    if (unmet.empty()) return {};
  }
  return all;
}

void Settings::act_with(const std::string& other,
                        const std::map<std::string, std::vector<std::string>>& values) {
  for (Setting& setting : all_) {
    const auto found = values.find(setting.about.name);
    if (found == values.end()) continue;
    std::vector<ActsWith::Case>& cases = setting.about.acts_with.cases;
    if (cases.empty()) cases.emplace_back();
    for (ActsWith::Case& each : cases) each.push_back({other, found->second});
  }
}

void Settings::also_take(const std::string& name, const Take& take,
                         const std::function<std::string()>& text) {
  for (Setting& setting : all_)
    if (setting.about.name == name) {
      setting.text = text;
      setting.set = [set = setting.set, take](const std::string& text) {
        try {
          set(text);
        } catch (const Error& refusal) {
          take(text, refusal.what());
        }
      };
    }
}

const Setting& Settings::at(const std::string& name) const {
  for (const Setting& setting : all_)
    if (setting.about.name == name) return setting;
  std::vector<std::string> names;
  for (const Setting& setting : all_) names.push_back(setting.about.name);
  fail("there is no setting {}{}", name, did_you_mean(name, names));
}

Settings Settings::in(const std::vector<std::string>& groups) const {
  for (const std::string& group : groups)
    check(std::ranges::find(all_, group, &Setting::group) != all_.end(),
          "there is no group of settings {}", group);
  Settings chosen;
  std::ranges::copy_if(all_, std::back_inserter(chosen.all_), [&](const Setting& setting) {
    return std::ranges::find(groups, setting.group) != groups.end();
  });
  return chosen;
}

Settings Settings::where(const std::function<bool(const Setting&)>& keep) const {
  Settings chosen;
  std::ranges::copy_if(all_, std::back_inserter(chosen.all_), keep);
  return chosen;
}

Settings Settings::without(std::initializer_list<std::string> names) const {
  Settings rest = *this;
  for (const std::string& name : names) {
    at(name);
    std::erase_if(rest.all_, [&](const Setting& setting) { return setting.about.name == name; });
  }
  return rest;
}

Settings Settings::only(std::initializer_list<std::string> names) const {
  Settings chosen;
  for (const std::string& name : names) chosen.all_.push_back(at(name));
  return chosen;
}

Settings Settings::trying(const std::string& name) const {
  Settings all = *this;
  for (Setting& setting : all.all_)
    for (ActsWith::Case& each : setting.about.acts_with.cases)
      std::erase_if(each, [&](const auto& condition) { return condition.name == name; });
  return all;
}

Settings Settings::settled(const std::string& name) const {
  const std::string value = at(name).text();
  Settings rest = without({name});
  const auto excludes = [&](const ActsWith::Case& each) {
    return std::ranges::any_of(each, [&](const ActsWith::Condition& condition) {
      return condition.name == name && !condition.is_met_by(value);
    });
  };
  std::erase_if(rest.all_, [&](const Setting& setting) {
    const auto& cases = setting.about.acts_with.cases;
    return !cases.empty() && std::ranges::all_of(cases, excludes);
  });
  return rest;
}

Settings Settings::read_only() const {
  Settings result = *this;
  for (Setting& setting : result.all_)
    setting.set = [name = setting.about.name](const std::string& text) {
      fail("{} is to be {} by a table that is only read: expected one of options that may change",
           name, text);
    };
  return result;
}

Settings& Settings::add_again(Setting other, SettingFacts about) {
  other.about = std::move(about);
  return push(std::move(other));
}

Settings& Settings::push(Setting setting) {
  setting.group = group_;
  const Takes& takes = setting.about.takes;
  const bool names_path = std::ranges::any_of(
      std::array{"FILE", "DIR", "FONT"}, [&](auto word) { return takes.find(word) != takes.npos; });
  check(
      names_path == (takes.path != Path::none),
      "the setting {} takes {}: expected reads(...) or writes(...) of a path, and of nothing else",
      setting.about.name, takes);
  all_.push_back(std::move(setting));
  return *this;
}

std::optional<std::string> detail::nearest_word(const std::string& word,
                                                const std::vector<std::string>& words) {
  const auto nearest = std::ranges::min_element(
      words, {}, [&](const std::string& known) { return edit_distance(word, known); });
  if (nearest == words.end() || edit_distance(word, *nearest) > 1 + word.size() / 3)
    return std::nullopt;
  return *nearest;
}

}  // namespace accrue
