#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "core/error.h"

namespace accrue {

// A value for an error.
inline std::string shown(const nlohmann::json& value) {
  constexpr size_t most = 60;
  const std::string text = value.dump(-1, ' ', true);
  return text.size() <= most ? text : text.substr(0, most) + "...";
}

inline std::string text_in(const nlohmann::json& object, const char* name,
                           const std::string& where) {
  const nlohmann::json value = object.value(name, nlohmann::json());
  check(value.is_string(), "{}: {} is {}, expected text", where, name, shown(value));
  return value.get<std::string>();
}

// Without the white space around it.
inline std::string trimmed(const std::string& text) {
  constexpr const char* space = " \t\r\n\v\f";
  const size_t begin = text.find_first_not_of(space);
  return begin == text.npos ? "" : text.substr(begin, text.find_last_not_of(space) + 1 - begin);
}

}  // namespace accrue
