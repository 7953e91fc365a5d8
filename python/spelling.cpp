#include "python/spelling.h"

#include <algorithm>
#include <cctype>
#include <string_view>

namespace accrue::python {
namespace {

bool is_letter_or_digit(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }
bool is_of_name(char c) { return is_letter_or_digit(c) || c == '-'; }

bool begins_with_word(std::string_view text, std::string_view word) {
  return !word.empty() && text.starts_with(word) &&
         (text.size() == word.size() || !is_of_name(text[word.size()]));
}

bool begins_with_number(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  return !text.empty() && std::isdigit(static_cast<unsigned char>(text[0])) != 0;
}

// The name of the option that stands at `begin`; empty if there is none.
std::string_view option_at(std::string_view text, size_t begin) {
  if (!text.substr(begin).starts_with("--") || (begin > 0 && is_of_name(text[begin - 1])))
    return {};
  size_t end = begin + 2;
  while (end < text.size() && is_of_name(text[end])) ++end;
  while (end > begin + 2 && text[end - 1] == '-') --end;
  return text.substr(begin + 2, end - begin - 2);
}

}  // namespace

std::string argument_name(std::string option) {
  std::ranges::replace(option, '-', '_');
  return option;
}

void Spelling::add(const std::string& option, const std::string& argument,
                   std::vector<std::string> values) {
  arguments_[option] = {argument, std::move(values)};
}

void Spelling::add(const Setting& setting, const std::string& argument) {
  std::vector<std::string> values = setting.choices();
  values.push_back(setting.text());
  for (const auto& [word, number] : setting.about.words) values.push_back(word);
  add(setting.about.name, argument, std::move(values));
}

void Spelling::add_file(const std::string& path, const std::string& argument) {
  files_.emplace_back(path, argument);
}

std::string Spelling::of(const std::string& message) const {
  std::string text = message;
  for (const auto& [path, argument] : files_)
    for (size_t at = 0; (at = text.find(path, at)) != std::string::npos; at += argument.size())
      text.replace(at, path.size(), argument);
  std::string spelt;
  for (size_t at = 0; at < text.size();) {
    const std::string_view option = option_at(text, at);
    const auto found = arguments_.find(std::string(option));
    if (option.empty() || found == arguments_.end()) {
      spelt += text[at++];
      continue;
    }
    const auto& [name, values] = found->second;
    spelt += name;
    at += 2 + option.size();
    const auto rest = std::string_view(text).substr(at);
    if (!rest.starts_with(' ')) continue;
    const auto next = rest.substr(1);
    const bool has_value =
        begins_with_number(next) || std::ranges::any_of(values, [&](const std::string& value) {
          return begins_with_word(next, value);
        });
    if (!has_value) continue;
    spelt += '=';
    ++at;
  }
  return spelt;
}

}  // namespace accrue::python
