#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/tensor.h"

namespace accrue {

// Refers to all state that passes from one window to the next, by name. A checkpoint reads this
// state, and resuming writes it. A class with more state of this kind adds it in its add_state() or
// state_dict().
struct StateDict {
  std::vector<std::pair<std::string, Tensor>> tensors;  // on their device
  std::vector<std::pair<std::string, std::variant<int64_t*, double*>>> numbers;
  // The tensors that are one rank's shard (accumulate/ranks.h), with the total number of elements
  // of all shards.
  std::map<std::string, int64_t> sharded;
};

}  // namespace accrue
