#pragma once

// Words in the names that people give to files, folders and columns.

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "core/inside.h"

namespace accrue {

inline char lower(char c) { return 'A' <= c && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

inline std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](char c) { return lower(c); });
  return text;
}

inline bool is_letter(char c) { return 'a' <= lower(c) && lower(c) <= 'z'; }
inline bool is_digit(char c) { return '0' <= c && c <= '9'; }

// "Image_Id" becomes "imageid", so names that mean the same become equal.
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

// The order in which people number files: a2 before a10. Texts that differ only in leading zeros of
// their numbers are ordered by their bytes.
inline bool natural_less(std::string_view a, std::string_view b) {
  const std::string_view all_a = a, all_b = b;
  const auto take_number = [](std::string_view& text) {
    size_t length = 0;
    while (length < text.size() && is_digit(text[length])) ++length;
    std::string_view number = text.substr(0, length);
    text.remove_prefix(length);
    number.remove_prefix(std::min(number.find_first_not_of('0'), number.size()));
    return number;
  };
  while (!a.empty() && !b.empty()) {
    if (is_digit(a.front()) && is_digit(b.front())) {
      const std::string_view x = take_number(a), y = take_number(b);
      if (x.size() != y.size()) return x.size() < y.size();
      if (x != y) return x < y;
    } else if (a.front() != b.front()) {
      return static_cast<unsigned char>(a.front()) < static_cast<unsigned char>(b.front());
    } else {
      a.remove_prefix(1);
      b.remove_prefix(1);
    }
  }
  return a.empty() != b.empty() ? a.empty() : all_a < all_b;
}

// "a, b, c and 4 more"
inline std::string some_of(const std::vector<std::string>& names, size_t most = 5) {
  std::string text;
  for (size_t i = 0; i < names.size() && i < most; ++i) text += (i ? ", " : "") + names[i];
  return names.size() > most ? text + " and " + std::to_string(names.size() - most) + " more"
                             : text;
}

}  // namespace accrue
