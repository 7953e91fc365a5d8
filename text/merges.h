#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace accrue {

// The merges of a byte-pair encoding: which pairs of neighboring tokens become one token, and in
// which order.
class Merges {
 public:
  struct Merge {
    int32_t left, right, merged;
  };

  struct Ranked {
    Merge merge;
    uint32_t rank;
  };

  // The order is that of the list, or of the ranks, which are below 2^32 - 1. If a pair occurs
  // twice, its last occurrence counts.
  explicit Merges(const std::vector<Merge>& ordered);
  explicit Merges(const std::vector<Ranked>& ranked);

  // Buffers for apply() that can be reused.
  struct Scratch {
    struct Symbol {
      int32_t before, next;
      uint32_t rank;  // of the pair of this and the next
    };
    std::vector<uint32_t> ranks;
    std::vector<Symbol> symbols;
    std::vector<uint64_t> heap;
  };
  // Merges until no pair is left. Each step merges the pair that comes first in the order, and the
  // leftmost of equal pairs. Takes O(n log n) time for n tokens.
  void apply(std::vector<int32_t>& tokens, Scratch& scratch) const;

 private:
  static constexpr uint32_t none = UINT32_MAX;
  static constexpr uint64_t no_pair = UINT64_MAX;
  struct Place {
    uint64_t pair = no_pair;
    uint32_t rank = none;
    int32_t merged = -1;
  };

  size_t place_of(uint64_t pair) const;
  const Place& at(int32_t left, int32_t right) const;
  void apply_to_few(std::vector<int32_t>& tokens, Scratch& scratch) const;
  void apply_to_many(std::vector<int32_t>& tokens, Scratch& scratch) const;

  std::vector<Place> table_;  // open addressing, at most half full
  int shift_ = 0;
};

}  // namespace accrue
