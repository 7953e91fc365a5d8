#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/tensor.h"

namespace accrue {

// Holds all state that goes from one window to the next, by name and by reference: a checkpoint
// reads it, and resuming writes it. A class with more such state adds it in its own add_state() or
// state_dict().
struct StateDict {
  std::vector<std::pair<std::string, Tensor>> tensors;  // on their device
  std::vector<std::pair<std::string, std::variant<int64_t*, double*>>> numbers;
  // The tensors that are one rank's shard (accumulate/ranks.h), with the number of elements of
  // all shards together.
  std::map<std::string, int64_t> sharded;
};

}  // namespace accrue
