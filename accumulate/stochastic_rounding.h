#pragma once

#include <bit>
#include <cstdint>

#include "core/half.h"
#include "core/host_device.h"
#include "core/inside.h"
#include "core/random.h"
#include "kernels/step/step_outcome.h"

namespace accrue {

// Rounds x to one of its two bfloat16 neighbors, chosen by the lower 16 bits of `random`. The
// neighbor away from zero has the probability (x's lower 16 bits) / 2^16. The mean over all random
// bits is therefore exactly x, and bfloat16 numbers stay unchanged. From the largest finite
// bfloat16 number on, x is rounded to nearest: the other neighbor would be infinity, and a number
// must not become infinite by chance. A NaN stays a NaN.
HOST_DEVICE inline BFloat16 round_stochastically(float x, uint32_t random) {
  constexpr uint32_t largest = 0x7f7f0000;
  const auto bits = std::bit_cast<uint32_t>(x);
  const auto by_chance = static_cast<uint16_t>((bits + (random & 0xffffu)) >> 16);
  return (bits & 0x7fffffffu) < largest ? BFloat16::from_bits(by_chance) : BFloat16(x);
}

// The random bits of a micro-batch: 16 for each element of the parameters' arena; one call of
// Philox gives the bits of eight elements. Nothing is stored. The bits depend only on the fields
// below, not on threads, on the device or on earlier draws.
struct RoundingBits {
  static constexpr int64_t elements_of_call = 8;
  static constexpr size_t words_of_call = 4;

  uint64_t key, micro_batch;

  // The fields that distinguish windows and micro-batches are read from device memory, so recorded
  // work can use them: the steps before the window, and the weight of its micro-batches so far,
  // including this one. A micro-batch of weight 0 repeats the random bits of the one before it,
  // which is harmless: it adds zeros and rounds nothing.
  HOST_DEVICE RoundingBits(uint64_t seed, const StepOutcome& window)
      // The constant separates these streams from others with the same seed.
      : key(mix_bits(seed ^ 0x676e69646e756f72) + static_cast<uint64_t>(window.steps)),
        micro_batch(std::bit_cast<uint64_t>(window.weight)) {}

  // The random words of the elements from `first` on, a multiple of 8.
  template <size_t calls>
  HOST_DEVICE void draw(uint32_t* words, int64_t first) const {
    philox_words<calls>(words, key, static_cast<uint64_t>(first / elements_of_call), micro_batch);
  }
  // The bits of element number i, counted from `first`.
  HOST_DEVICE static uint32_t of(const uint32_t* words, int64_t i) {
    return words[i / 2] >> (16 * (i % 2));
  }
};

}  // namespace accrue
