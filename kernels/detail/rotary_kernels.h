#pragma once

#include <cstdint>

#include "core/host_device.h"
#include "core/inside.h"
#include "kernels/detail/vector_sin_cos.h"
#include "kernels/rotary.h"

namespace accrue {

template <class W>
struct Rotation {
  W cos, sin;

  HOST_DEVICE W first(W a, W b) const { return a * cos - b * sin; }
  HOST_DEVICE W second(W a, W b) const { return a * sin + b * cos; }
};

enum class Turn { forward, back };

// A Rotary in the form that kernels take, by value. Pair i of a head is its elements step * i and
// step * i + apart.
struct RotaryPairs {
  static constexpr int64_t most = 128;
  int64_t count, step, apart;
  double frequencies[most];

  RotaryPairs(const Rotary& rotary, Turn turn)
      : count(rotary.size / 2),
        step(rotary.layout == RotaryLayout::halves ? 1 : 2),
        apart(rotary.layout == RotaryLayout::halves ? count : 1),
        frequencies{} {
    for (size_t i = 0; i < rotary.frequencies.size(); ++i)
      frequencies[i] = turn == Turn::forward ? rotary.frequencies[i] : -rotary.frequencies[i];
  }

  template <class W>
  HOST_DEVICE Rotation<W> rotation(int32_t position, int64_t i) const {
    const auto [sin, cos] = vector_sin_cos(position * frequencies[i]);
    return {static_cast<W>(cos), static_cast<W>(sin)};
  }
};

}  // namespace accrue
