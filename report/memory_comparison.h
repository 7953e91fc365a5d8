#pragma once

#include <algorithm>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/inside.h"
#include "core/memory.h"
#include "train/batches.h"

namespace accrue {

namespace detail {
struct StrategyFacts;
}  // namespace detail

// A way to get from an effective batch to an optimizer step; a comparison has rows of each.
struct Way {
  enum class Split {
    never,   // one batch at once
    always,  // micro-batches
    either
  };

  std::string name;
  std::vector<std::pair<std::string, std::string>> settings;  // of `accrue train`
  Split split;

  bool is_pytorch() const { return name == "pytorch"; }
  // Null for PyTorch.
  const StrategyFacts* strategy() const;
  // Whether the row has the command's --precision; other rows have one of their own.
  bool is_in_given_precision() const {
    return std::ranges::none_of(settings, [](auto& s) { return s.first == "precision"; });
  }
};

// The baseline: the whole effective batch at once, gradients kept.
const Way& at_once();
// All others.
const std::vector<Way>& all_ways();
// The one of this name; nullptr if there is none.
const Way* find_way(const std::string& name);

// One configuration and what was measured of it.
struct MemoryRow {
  double width;
  Batches batches;
  Way way;

  Usage peak;                   // by the ledger
  size_t untold_bytes = 0;      // PyTorch's, which it does not tell apart
  size_t rss_growth_bytes = 0;  // highest resident memory, less that before the first allocation
  std::optional<size_t> reserved_bytes;     // PyTorch's allocator, on cuda
  std::vector<double> us_per_sample;        // of each window
  std::optional<double> weight_difference;  // largest, against the baseline's weights

  double median_us() const;
  size_t bytes_without_data() const { return total_bytes() - peak[Category::data]; }
  size_t total_bytes() const { return peak.total() + untold_bytes; }
};

// Rows that share width and effective batch. The first is at_once().
using MemoryRows = std::vector<MemoryRow>;

// In words, what a row costs and saves against the first: "3.1x less memory for 1.02x the time".
// Says so where it does not pay: where memory is not less, or time grows by more than memory
// shrinks.
std::string verdict(const MemoryRow& row, const MemoryRows& rows);

nlohmann::ordered_json to_json(const MemoryRow& row, const MemoryRows& rows);
std::string to_csv(const std::vector<MemoryRows>& groups);

}  // namespace accrue
