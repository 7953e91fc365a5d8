#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/support/device.h"
#include "train/training.h"

namespace accrue::test {

// Every number in the state of a training, bit for bit: parameters, moments and module buffers.
using TrainingState = std::map<std::string, std::vector<double>>;
inline TrainingState state_of_training(Training& training) {
  TrainingState state;
  NamedTensors all = training.named_tensors();
  for (const auto& named : training.game().state_dict().tensors) all.push_back(named);
  for (const auto& [name, tensor] : all)
    if (!name.ends_with("window.state")) state[name] = to_doubles(tensor);
  return state;
}

}  // namespace accrue::test
