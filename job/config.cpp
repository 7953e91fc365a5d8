#include "job/config.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>

#include "core/error.h"
#include "core/inside.h"

namespace accrue {
namespace {

// Reads the part of TOML that a file of settings needs: keys, strings on one line, numbers, words
// and arrays of these values. It refuses all other TOML.
class FlatToml {
 public:
  explicit FlatToml(std::string_view text) : text_(text) {
    constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";  // of editors on Windows
    if (text_.starts_with(byte_order_mark)) at_ = byte_order_mark.size();
  }

  // Calls take(key, values) for each line.
  template <class Take>
  void read(const Take& take) {
    for (skip_lines(); at_ < text_.size(); skip_lines()) {
      refuse_section();
      const std::string key = word();
      expect(!key.empty() && next_is('='), "expected a line such as lr = 0.01");
      std::vector<std::string> values;
      if (next_is('[')) read_array(values);
      else values.push_back(value());
      skip_blanks();
      expect(at_ == text_.size() || text_[at_] == '\n' || text_[at_] == '#',
             "expected one value for " + key + ", with quotes around one that has blanks");
      take(key, values);
    }
  }

 private:
  static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }
  void expect(bool holds, const std::string& what) const {
    if (holds) return;
    const auto line = 1 + std::ranges::count(text_.substr(0, at_), '\n');
    fail("line {}: {}", line, what);
  }
  void refuse_section() const {
    if (text_[at_] != '[') return;
    const size_t end = std::min(text_.find_first_of("]\n", at_), text_.size());
    fail("it has the section {}]: expected lines such as lr = 0.01 alone, without sections",
         text_.substr(at_, end - at_));
  }
  void skip_blanks() {
    while (at_ < text_.size() && is_blank(text_[at_])) ++at_;
  }
  // Skips blanks, ends of lines and comments.
  void skip_lines() {
    for (skip_blanks(); at_ < text_.size() && (text_[at_] == '\n' || text_[at_] == '#');
         skip_blanks())
      if (text_[at_] == '#') at_ = std::min(text_.find('\n', at_), text_.size());
      else ++at_;
  }
  bool next_is(char c) {
    skip_blanks();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void read_array(std::vector<std::string>& values) {
    for (skip_lines(); !next_is(']'); skip_lines()) {
      values.push_back(value());
      skip_lines();
      if (next_is(',')) continue;
      expect(next_is(']'), "expected , or ] after a value of an array");
      return;
    }
  }
  // Reads a key, or a value without quotes.
  std::string word() {
    skip_blanks();
    if (at_ < text_.size() && (text_[at_] == '"' || text_[at_] == '\'')) return quoted();
    const size_t end = std::min(text_.find_first_of(" \t\r\n#=,[]\"'", at_), text_.size());
    const std::string found(text_.substr(at_, end - at_));
    at_ = end;
    return found;
  }
  std::string value() {
    skip_blanks();
    const bool is_quoted = at_ < text_.size() && (text_[at_] == '"' || text_[at_] == '\'');
    const std::string found = word();
    expect(is_quoted || !found.empty(), "expected a value");
    return found;
  }
  // Reads "..." with escapes, or '...' as it stands.
  std::string quoted() {
    const char quote = text_[at_++];
    std::string found;
    for (;; ++at_) {
      expect(at_ < text_.size() && text_[at_] != '\n', "a text in quotes does not end");
      if (text_[at_] == quote) break;
      found += quote == '"' && text_[at_] == '\\' ? escaped() : text_[at_];
    }
    ++at_;
    expect(!found.empty() || at_ == text_.size() || text_[at_] != quote,
           "texts of several lines are not read here: expected \"...\" on one line");
    return found;
  }
  char escaped() {
    constexpr std::string_view letters = "\"\\btnfr", meant = "\"\\\b\t\n\f\r";
    ++at_;
    const size_t which = at_ < text_.size() ? letters.find(text_[at_]) : letters.npos;
    expect(which != letters.npos,
           "unknown escape in \"...\": expected \\\\ for a backslash, or '...' around the text");
    return meant[which];
  }

  const std::string_view text_;
  size_t at_ = 0;
};

bool is_number(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

std::string in_quotes(std::string_view text) {
  std::string all = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') all += '\\';
    all += c;
  }
  return all + '"';
}

}  // namespace

std::vector<std::pair<std::string, std::string>> settings_in_config(const std::string& path,
                                                                    const Settings& known) {
  check(!std::filesystem::is_directory(path),
        "--config '{}': it is a directory, expected a file such as the config.toml of a log", path);
  std::ifstream file(path, std::ios::binary);
  check(file.good(), "--config '{}' cannot be read: expected a file with lines such as lr = 0.01",
        path);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  std::vector<std::pair<std::string, std::string>> said;
  try {
    FlatToml(text).read([&](const std::string& key, const std::vector<std::string>& values) {
      const std::string value = fmt::format("{}", fmt::join(values, ","));
      const bool is_flag = known.at(key).is_flag;
      check(!is_flag || value == "true" || value == "false", "{} = {}: expected true or false", key,
            value);
      said.emplace_back(key, !is_flag ? value : value == "true" ? "yes" : "no");
    });
  } catch (const std::exception& error) {
    fail("--config {}: {}", path, error.what());
  }
  return said;
}

std::string to_toml(const Settings& settings,
                    const std::function<bool(const Setting&)>& is_needed) {
  std::string text = "# The settings that repeat the run; the other settings are comments.\n",
              group;
  for (const Setting& setting : settings) {
    const std::string value = setting.text();
    if (value.empty() || (setting.is_flag && value == "no") || !settings.has_effect(setting))
      continue;
    if (std::exchange(group, setting.group) != setting.group)
      text += fmt::format("\n# {}\n", group);
    const std::string written = setting.is_flag    ? "true"
                                : is_number(value) ? value
                                                   : in_quotes(value);
    text += fmt::format("{}{} = {}\n", is_needed(setting) ? "" : "# ", setting.about.name, written);
  }
  return text;
}

}  // namespace accrue
