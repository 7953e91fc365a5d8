#pragma once

#include <bit>
#include <cstdint>

#include "core/half.h"
#include "core/host_device.h"
#include "core/inside.h"
#include "core/random.h"
#include "kernels/step/step_outcome.h"

namespace accrue {

// One of the two bfloat16 numbers around x, chosen by the lower 16 bits of `random`: the one away
// from zero with the probability with which x lies between them, x's lower 16 bits / 2^16. Over all
// random bits the mean is therefore x, exactly, and numbers that bfloat16 has stay what they are.
// From the largest finite one on, beyond which lies infinity, x is rounded to nearest, so that a
// number becomes infinite by its size and never by chance. A NaN stays one.
HOST_DEVICE inline BFloat16 round_stochastically(float x, uint32_t random) {
  constexpr uint32_t largest = 0x7f7f0000;
  const auto bits = std::bit_cast<uint32_t>(x);
  const auto by_chance = static_cast<uint16_t>((bits + (random & 0xffffu)) >> 16);
  return (bits & 0x7fffffffu) < largest ? BFloat16::from_bits(by_chance) : BFloat16(x);
}

// The random bits of a micro-batch: 16 for each element of the parameters' arena, of eight elements
// from one call of Philox. Nothing is stored, and what is drawn depends on these numbers alone, not
// on threads, on the device or on what was drawn before.
struct RoundingBits {
  static constexpr int64_t elements_of_call = 8;
  static constexpr size_t words_of_call = 4;

  uint64_t key, micro_batch;

  // What tells windows and micro-batches apart is in device memory, where recorded work finds it:
  // the steps before the window, and the weight of its micro-batches so far, this one included. A
  // micro-batch of weight 0, which has that of the one before it, adds zeros and rounds nothing.
  HOST_DEVICE RoundingBits(uint64_t seed, const StepOutcome& window)
      // The constant sets these streams apart from others under the same seed.
      : key(mix_bits(seed ^ 0x676e69646e756f72) + static_cast<uint64_t>(window.steps)),
        micro_batch(std::bit_cast<uint64_t>(window.weight)) {}

  // The words of elements from `first`, a multiple of 8, on.
  template <size_t calls>
  HOST_DEVICE void draw(uint32_t* words, int64_t first) const {
    philox_words<calls>(words, key, static_cast<uint64_t>(first / elements_of_call), micro_batch);
  }
  // The bits of the element that lies i after the first.
  HOST_DEVICE static uint32_t of(const uint32_t* words, int64_t i) {
    return words[i / 2] >> (16 * (i % 2));
  }
};

}  // namespace accrue
