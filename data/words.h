#pragma once

// Words in the names that people give to files, folders and columns.

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace accrue {

inline char lower(char c) { return 'A' <= c && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

inline std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](char c) { return lower(c); });
  return text;
}

inline bool is_letter(char c) { return 'a' <= lower(c) && lower(c) <= 'z'; }
inline bool is_digit(char c) { return '0' <= c && c <= '9'; }

// "Image_Id" becomes "imageid": what is left if names are taken for one.
inline std::string letters_and_digits(std::string_view name) {
  std::string text;
  for (const char c : name)
    if (is_letter(c) || is_digit(c)) text += lower(c);
  return text;
}

// "seg_train2" has the words "seg" and "train".
inline std::vector<std::string> words_of(std::string_view name) {
  std::vector<std::string> words(1);
  for (const char c : name)
    if (is_letter(c)) words.back() += lower(c);
    else if (!words.back().empty()) words.emplace_back();
  if (words.back().empty()) words.pop_back();
  return words;
}

// "a, b, c and 4 more"
inline std::string some_of(const std::vector<std::string>& names, size_t most = 5) {
  std::string text;
  for (size_t i = 0; i < names.size() && i < most; ++i) text += (i ? ", " : "") + names[i];
  return names.size() > most ? text + " and " + std::to_string(names.size() - most) + " more"
                             : text;
}

}  // namespace accrue
