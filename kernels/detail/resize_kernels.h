#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "core/host_device.h"
#include "core/inside.h"
#include "core/view.h"
#include "kernels/resize.h"

namespace accrue {

// A pixel of x and what it counts.
struct Tap {
  int64_t index;
  double weight;
};

// A dimension of `in` pixels that becomes one of `out`, each of which has taps() taps. Their
// indices do not fall from one pixel to the next.
struct TappedAxis {
  int64_t in, out;
  ResizeMode mode;
  Coordinates coordinates;
  double step;  // in pixels of x, from one pixel of y to the next

  TappedAxis(int64_t in, int64_t out, ResizeMode mode, Coordinates coordinates, double factor)
      : in(in), out(out), mode(mode), coordinates(coordinates) {
    if (in == out && mode == ResizeMode::bilinear) factor = 0;
    if (coordinates == Coordinates::align_corners) step = out > 1 ? double(in - 1) / (out - 1) : 0;
    else step = factor > 0 ? 1 / factor : double(in) / out;
  }

  HOST_DEVICE int taps() const {
    return mode == ResizeMode::bicubic ? 4 : mode == ResizeMode::bilinear ? 2 : 1;
  }
  HOST_DEVICE int64_t entries() const { return out * taps(); }
  bool changes_nothing() const { return in == out && (step == 1 || out == 1); }

  // Tap k of pixel o.
  HOST_DEVICE Tap tap(int64_t o, int k) const {
    if (taps() == 1) return {nearest(o), 1};
    const double p = place(o);
    const int64_t first = std::min(static_cast<int64_t>(std::floor(p)), in - 1);
    const double t = std::clamp(p - static_cast<double>(first), 0.0, 1.0);
    if (mode == ResizeMode::bilinear) return {std::min(first + k, in - 1), k == 0 ? 1 - t : t};
    return {std::clamp<int64_t>(first - 1 + k, 0, in - 1), cubic(t, k)};
  }

  // Writes row o of the table of `entries` (index, weight), whose row o begins with begin[o].
  template <class W>
  HOST_DEVICE void write_taps(int64_t o, int32_t* begin, int32_t* index, W* weight) const {
    for (int k = 0; k < taps(); ++k) {
      const Tap one = tap(o, k);
      index[o * taps() + k] = static_cast<int32_t>(one.index);
      weight[o * taps() + k] = static_cast<W>(one.weight);
    }
    begin[o] = static_cast<int32_t>(o * taps());
    if (o + 1 == out) begin[out] = static_cast<int32_t>(entries());
  }

  // The same of the transposed table: row i has the pixels of y that read pixel i, in their order.
  template <class W>
  HOST_DEVICE void write_readers(int64_t i, int32_t* begin, int32_t* index, W* weight) const {
    int64_t to = 0, first = out, last = 0;
    for (int k = 0; k < taps(); ++k) {
      const int64_t reader = first_reader(i, k), next = first_reader(i + 1, k);
      to += reader;
      first = std::min(first, reader);
      last = std::max(last, next);
    }
    begin[i] = static_cast<int32_t>(to);
    if (i + 1 == in) begin[in] = static_cast<int32_t>(entries());
    for (int64_t o = first; o < last; ++o)
      for (int k = 0; k < taps(); ++k) {
        const Tap one = tap(o, k);
        if (one.index != i) continue;
        index[to] = static_cast<int32_t>(o);
        weight[to++] = static_cast<W>(one.weight);
      }
  }

 private:
  HOST_DEVICE int64_t nearest(int64_t o) const {
    const float shift = mode == ResizeMode::nearest_exact ? 0.5f : 0.0f;
    const float p = (static_cast<float>(o) + shift) * static_cast<float>(step);
    return std::min(static_cast<int64_t>(std::floor(p)), in - 1);
  }
  HOST_DEVICE double place(int64_t o) const {
    if (coordinates == Coordinates::align_corners) return static_cast<double>(o) * step;
    const double p = (static_cast<double>(o) + 0.5) * step - 0.5;
    return mode == ResizeMode::bilinear ? std::max(p, 0.0) : p;
  }
  // Cubic convolution: the weight of a pixel at a distance below 1, or below 2.
  HOST_DEVICE static double near_weight(double d) { return (1.25 * d - 2.25) * d * d + 1; }
  HOST_DEVICE static double far_weight(double d) { return ((-0.75 * d + 3.75) * d - 6) * d + 3; }
  HOST_DEVICE static double cubic(double t, int k) {
    return k == 0   ? far_weight(t + 1)
           : k == 1 ? near_weight(t)
           : k == 2 ? near_weight(1 - t)
                    : far_weight(2 - t);
  }
  // The first pixel of y whose tap k is pixel i or a later one; `out` if there is none.
  HOST_DEVICE int64_t first_reader(int64_t i, int k) const {
    int64_t low = 0, high = out;
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      if (tap(middle, k).index < i) low = middle + 1;
      else high = middle;
    }
    return low;
  }
};

// A table of taps: row o has the entries [begin[o], begin[o + 1]) of index and weight.
struct TapTable {
  TappedAxis axis;
  View begin, index, weight;  // i32, i32, and the type that is computed in
  int64_t each;               // entries of every row, or 0 if their number varies
};

enum class TapsOf : char { outputs, inputs };

}  // namespace accrue
