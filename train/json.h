#pragma once

#include <nlohmann/json.hpp>

#include "core/inside.h"
#include "core/usage.h"
#include "train/score.h"

namespace accrue {

// {"parameters": bytes, ..., "data": bytes}
inline nlohmann::ordered_json by_category(const Usage& usage) {
  nlohmann::ordered_json json;
  for (Category c : all_categories) json[std::string(name(c))] = usage[c];
  return json;
}
// The categories and their sum, "total".
inline nlohmann::ordered_json with_total(const Usage& usage) {
  nlohmann::ordered_json json = by_category(usage);
  json["total"] = usage.total();
  return json;
}

inline nlohmann::ordered_json to_json(const Score& score) {
  nlohmann::ordered_json json{{"samples", score.samples}, {"loss", score.loss}};
  for (const Score::Metric& metric : score.metrics) {
    if (metric.is_count) json[metric.name] = static_cast<int64_t>(metric.value);
    else json[metric.name] = metric.value;
  }
  return json;
}

}  // namespace accrue
