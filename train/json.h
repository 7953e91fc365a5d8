#pragma once

#include <nlohmann/json.hpp>

#include "core/usage.h"
#include "train/score.h"

namespace accrue {

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

inline nlohmann::ordered_json to_json(const Score& score) {
  nlohmann::ordered_json json{{"samples", score.samples}, {"loss", score.loss}};
  if (score.of_masks) json.update({{"dice", score.dice}, {"iou", score.iou}});
  else json.update({{"correct", score.correct}, {"accuracy", score.accuracy()}});
  return json;
}

}  // namespace accrue
