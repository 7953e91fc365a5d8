#pragma once

#include <nlohmann/json.hpp>

#include "core/usage.h"

namespace accrue::app {

// {"parameters": bytes, ..., "data": bytes}
inline nlohmann::ordered_json by_category(const Usage& usage) {
  nlohmann::ordered_json json;
  for (Category c : all_categories) json[std::string(name(c))] = usage[c];
  return json;
}
// The same and their sum, "total".
inline nlohmann::ordered_json with_total(const Usage& usage) {
  nlohmann::ordered_json json = by_category(usage);
  json["total"] = usage.total();
  return json;
}

}  // namespace accrue::app
