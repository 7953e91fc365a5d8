#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "kernels/backend.h"
#include "kernels/detail/counted.h"
#include "kernels/detail/vector_exp.h"
#include "kernels/detail/wide_runs.h"

// These helpers are shared by the losses of pixels' classes on the CPU.

namespace accrue::cpu {

// The number of pixels whose softmax is computed side by side, in vectors.
inline constexpr int64_t pixel_run = 64;

// Calls body(n, p, size) for runs of the pixels [begin, end) of N * P. Each run is in one image.
template <class Body>
void for_each_run(int64_t begin, int64_t end, int64_t P, Body&& body) {
  for (int64_t i = begin; i < end;) {
    const int64_t n = i / P, p = i % P, size = std::min({pixel_run, P - p, end - i});
    body(n, p, size);
    i += size;
  }
}

// The elements of a run of pixels in a plane.
template <class W>
using PixelInput = WideInput<W, pixel_run>;
template <class W>
using PixelOutput = WideOutput<W, pixel_run>;

// RowSoftmax of `size` pixels, from element `first` of x on. The classes are P elements apart.
template <class W>
struct RunSoftmax {
  W maximum[pixel_run], rest[pixel_run];

  RunSoftmax(const View& x, int64_t first, const int32_t* label, int64_t C, int64_t P,
             int64_t size) {
    const PixelInput<W> of_first(x, first, size);
    for (int64_t i = 0; i < size; ++i) maximum[i] = of_first.data()[i], rest[i] = 0;
    for (int64_t c = 1; c < C; ++c) {
      const PixelInput<W> plane(x, first + c * P, size);
      const W* const in = plane.data();
      for (int64_t i = 0; i < size; ++i) maximum[i] = in[i] > maximum[i] ? in[i] : maximum[i];
    }
    for (int64_t c = 0; c < C; ++c) {
      const PixelInput<W> plane(x, first + c * P, size);
      const W* const in = plane.data();
      for (int64_t i = 0; i < size; ++i)
        rest[i] += vector_exp(in[i] - maximum[i]) - W(label[i] == c);
    }
  }
  // The probability of a class whose logit at pixel i is x.
  W probability(int64_t i, W x) const { return vector_exp(x - maximum[i]) / (1 + rest[i]); }
};

inline void check_pixel_labels(std::string_view op, View labels, int64_t C,
                               const Counted& counted) {
  const int32_t* label = labels.as<int32_t>();
  for (int64_t i = 0; i < labels.numel(); ++i)
    check((0 <= label[i] && label[i] < C) || counted.leaves_out(label[i]),
          "[{}] label {} of pixel {} is outside [0, {})", op, label[i], i, C);
}

}  // namespace accrue::cpu
