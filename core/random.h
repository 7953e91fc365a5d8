#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>

namespace accrue {

// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011) is a
// counter-based generator. Equal keys and counters give the same four words on any device and in
// any order, so random numbers are never stored or replayed in sequence.
// This writes the words of `calls` consecutive counters: counter_low rises, modulo 2^32 in its
// lower half. The calls are independent, so the compiler vectorises them.
template <size_t calls>
constexpr void philox_words(uint32_t* words, uint64_t key, uint64_t counter_low,
                            uint64_t counter_high) {
  std::array<uint32_t, calls> c0{}, c1{}, c2{}, c3{};
  for (size_t i = 0; i < calls; ++i) {
    c0[i] = static_cast<uint32_t>(counter_low + i);
    c1[i] = static_cast<uint32_t>(counter_low >> 32);
    c2[i] = static_cast<uint32_t>(counter_high);
    c3[i] = static_cast<uint32_t>(counter_high >> 32);
  }
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round, k0 += 0x9E3779B9, k1 += 0xBB67AE85) {
// Without this, GCC unrolls the calls before it tries to vectorise them.
#pragma GCC unroll 1
    for (size_t i = 0; i < calls; ++i) {
      const uint64_t p0 = uint64_t{0xD2511F53} * c0[i], p1 = uint64_t{0xCD9E8D57} * c2[i];
      c0[i] = static_cast<uint32_t>(p1 >> 32) ^ c1[i] ^ k0;
      c1[i] = static_cast<uint32_t>(p1);
      c2[i] = static_cast<uint32_t>(p0 >> 32) ^ c3[i] ^ k1;
      c3[i] = static_cast<uint32_t>(p0);
    }
  }
  for (size_t i = 0; i < calls; ++i) {
    words[4 * i] = c0[i];
    words[4 * i + 1] = c1[i];
    words[4 * i + 2] = c2[i];
    words[4 * i + 3] = c3[i];
  }
}

// SplitMix64's finaliser (Steele et al., "Fast splittable pseudorandom number generators", OOPSLA
// 2014): every bit of the result depends on all bits of z, and different z give different results.
constexpr uint64_t mix_bits(uint64_t z) {
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
  z = (z ^ z >> 27) * 0x94d049bb133111eb;
  return z ^ z >> 31;
}

constexpr std::array<uint32_t, 4> philox(uint64_t key, uint64_t counter_low,
                                         uint64_t counter_high = 0) {
  std::array<uint32_t, 4> words{};
  philox_words<1>(words.data(), key, counter_low, counter_high);
  return words;
}

// Uniform in [0, 1) from the upper 24 bits, which a float represents exactly.
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
