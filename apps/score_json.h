#pragma once

#include <nlohmann/json.hpp>

#include "train/score.h"

namespace accrue::app {

inline nlohmann::ordered_json to_json(const Score& score) {
  nlohmann::ordered_json json{{"samples", score.samples}, {"loss", score.loss}};
  if (score.of_masks) json.update({{"dice", score.dice}, {"iou", score.iou}});
  else json.update({{"correct", score.correct}, {"accuracy", score.accuracy()}});
  return json;
}

}  // namespace accrue::app
