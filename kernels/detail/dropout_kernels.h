#pragma once

#include "core/inside.h"
#include "core/random.h"
#include "kernels/backend.h"
#include "kernels/dropout.h"

namespace accrue {

inline constexpr int64_t words_of_call = 4;  // of a call of Philox

// Applies the mask to an element, by the element's random word.
template <class T>
struct ElementMask {
  uint32_t threshold;  // words below it zero their element
  T factor;

  HOST_DEVICE T operator()(T x, uint32_t word) const {
    const T scaled = factor * x;
    return word >= threshold ? scaled : T(0);
  }
};

// The part of the mask that all rows share.
struct Mask {
  uint64_t key;
  uint64_t layer_and_epoch;
  int64_t first;
  uint32_t threshold;
  double factor;

  Mask(double p, const DropoutKey& dropout)
      // The constant separates these streams from others under the same seed.
      : key(dropout.seed ^ 0x74756f706f7264),
        layer_and_epoch(dropout.layer | static_cast<uint64_t>(dropout.epoch) << 32),
        first(dropout.first),
        threshold(static_cast<uint32_t>(p * 0x1p32)),
        factor(1 / (1 - p)) {}

  template <class T>
  HOST_DEVICE ElementMask<T> of_elements() const {
    return {threshold, static_cast<T>(factor)};
  }

  // Four consecutive elements of a row share a call. The first four may begin before the row;
  // returns how many of them are not in x.
  HOST_DEVICE int64_t before_row() const { return first % words_of_call; }

  // Draws the words of a row's elements from `element` on, which must be the first of its four.
  template <size_t calls>
  HOST_DEVICE void draw(uint32_t* word, int32_t sample, int64_t element) const {
    const auto call = static_cast<uint32_t>((first + element) / words_of_call);
    philox_words<calls>(word, key, uint64_t{static_cast<uint32_t>(sample)} << 32 | call,
                        layer_and_epoch);
  }
};

}  // namespace accrue
