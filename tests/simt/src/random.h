#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace simt {

// SplitMix64: tiny, and every seed is a good one.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  // Uniform in [0, n), up to a bias of n / 2^32.
  uint32_t below(uint32_t n) { return uint64_t(uint32_t(next() >> 32)) * n >> 32; }

  template <class T>
  void shuffle(std::span<T> values) {
    for (size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[below(i)]);
  }

 private:
  uint64_t next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

  uint64_t state_;
};

}  // namespace simt
