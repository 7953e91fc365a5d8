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

// A way to get from an effective batch to an optimizer step. A comparison has rows for each way.
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
  // True if the row uses the command's --precision; other ways set their own precision.
  bool is_in_given_precision() const {
    return std::ranges::none_of(settings, [](auto& s) { return s.first == "precision"; });
  }
};

// The baseline: the whole effective batch at once, gradients kept.
const Way& at_once();
// All other ways.
const std::vector<Way>& all_ways();
// The way of this name; nullptr if there is none.
const Way* find_way(const std::string& name);

// One configuration and its measurements.
struct MemoryRow {
  double width;
  Batches batches;
  Way way;

  Usage peak;                   // by the ledger
  size_t untold_bytes = 0;      // PyTorch's memory whose category is unknown
  size_t rss_growth_bytes = 0;  // the peak of resident memory, minus its value before the first
                                // allocation
  std::optional<size_t> reserved_bytes;     // PyTorch's allocator, on cuda
  std::vector<double> us_per_sample;        // of each window
  std::optional<double> weight_difference;  // largest, against the baseline's weights

  double median_us() const;
  size_t bytes_without_data() const { return total_bytes() - peak[Category::data]; }
  size_t total_bytes() const { return peak.total() + untold_bytes; }
};

// Rows that share width and effective batch. The first is at_once().
using MemoryRows = std::vector<MemoryRow>;

// Describes the costs and savings of a row compared to the first: "3.1x less memory for 1.02x the
// time". Says "does not pay" if memory is not less, or if time grows by more than memory shrinks.
std::string verdict(const MemoryRow& row, const MemoryRows& rows);

nlohmann::ordered_json to_json(const MemoryRow& row, const MemoryRows& rows);
std::string to_csv(const std::vector<MemoryRows>& groups);

}  // namespace accrue
