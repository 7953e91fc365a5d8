#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>

namespace accrue {

// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011): a
// counter-based generator. The same key and counter give the same four words on any device, in
// any order, so nothing random is ever stored or replayed in sequence.
constexpr std::array<uint32_t, 4> philox(uint64_t key, uint64_t counter_low,
                                         uint64_t counter_high = 0) {
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  std::array<uint32_t, 4> c{
      static_cast<uint32_t>(counter_low), static_cast<uint32_t>(counter_low >> 32),
      static_cast<uint32_t>(counter_high), static_cast<uint32_t>(counter_high >> 32)};
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * c[0], p1 = uint64_t{0xCD9E8D57} * c[2];
    c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(p1),
         static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(p0)};
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return c;
}

// Uniform in [0, 1) from the upper 24 bits: every value is a float.
constexpr float uniform(uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24f; }

// A sequence of Philox words under one key, with the distributions used here. Streams with
// different keys are independent.
class RandomStream {
 public:
  explicit RandomStream(uint64_t seed, uint64_t stream = 0) : key_(seed), stream_(stream) {}

  uint32_t next() {
    if (used_ == 4) {
      words_ = philox(key_, counter_++, stream_);
      used_ = 0;
    }
    return words_[used_++];
  }
  // Uniform in [low, high).
  float uniform(float low = 0, float high = 1) {
    return low + (high - low) * accrue::uniform(next());
  }
  // Standard normal (Box-Muller).
  float normal() {
    const float radius = std::sqrt(-2 * std::log(1 - accrue::uniform(next())));
    return radius * std::cos(2 * std::numbers::pi_v<float> * accrue::uniform(next()));
  }
  // Uniform in {0, ..., n - 1}, n >= 1, unbiased (Lemire, "Fast random integer generation in an
  // interval", 2019).
  uint32_t below(uint32_t n) {
    uint64_t product = uint64_t{next()} * n;
    if (static_cast<uint32_t>(product) < n) {
      const uint32_t threshold = -n % n;
      while (static_cast<uint32_t>(product) < threshold) product = uint64_t{next()} * n;
    }
    return static_cast<uint32_t>(product >> 32);
  }

 private:
  uint64_t key_, stream_, counter_ = 0;
  std::array<uint32_t, 4> words_{};
  int used_ = 4;
};

}  // namespace accrue
