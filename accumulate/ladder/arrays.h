#pragma once

#include <cmath>
#include <limits>
#include <mutex>
#include <span>
#include <vector>

#include "core/inside.h"
#include "core/parameters.h"
#include "kernels/parallel.h"

namespace accrue::ladder {

// One flat array of a rung: all of it, and the slice of each parameter.
struct Array {
  Tensor initial;  // on the host
  Tensor values;   // on the device
  std::vector<View> parameters;

  View flat() const { return values.view(); }
  void reset() const { values.copy_from(initial); }
  Tensor on_host() const { return values.to(Device::cpu, Category::workspace); }
};

// The operands of the ladders: arrays laid out like a model's arena, with zeros in the gaps between
// parameters. Elements are uniform in [-1, 1); v's are uniform in [0, 1).
struct Arrays {
  Arrays(const Parameters& layout, Device device);
  // Restores the initial values in all arrays that a rung writes to, except t.
  void reset() const;

  Device device;
  std::vector<Parameters::Entry> layout;
  Array sum, w, g, m, v;
  Array t;                                           // of temporaries
  Array g_f16, g_bf16;                               // g, rounded
  Tensor found;                                      // f32 [1]
  int64_t size() const { return g.values.numel(); }  // of an array
  int64_t count() const;                             // of the parameters
  int64_t tensors() const { return static_cast<int64_t>(layout.size()); }
};

// A layout of `bytes` bytes: layers of 4096 x 4096 weights and 4096 biases; the last ones are
// smaller.
Parameters layout_of(size_t bytes);

// The exact value of an element, and the largest error that rounding explains.
struct Expected {
  double value, bound;
};

// The error in units of the bound: at most 1 is right.
inline double error_of(double actual, Expected expected) {
  const double error = std::abs(actual - expected.value);
  if (error == 0) return 0;
  return std::isfinite(error) ? error / expected.bound : std::numeric_limits<double>::infinity();
}

// The largest error of x[begin + i] against expected(i) for i in [0, n).
template <class Expect>
double worst_error(std::span<const float> x, Expect&& expected) {
  double worst = 0;
  std::mutex mutex;
  parallel_for(static_cast<int64_t>(x.size()), 1, [&](int64_t begin, int64_t end) {
    double mine = 0;
    for (int64_t i = begin; i < end; ++i)
      mine = std::max(mine, error_of(x[static_cast<size_t>(i)], expected(static_cast<size_t>(i))));
    const std::lock_guard lock(mutex);
    worst = std::max(worst, mine);
  });
  return worst;
}

}  // namespace accrue::ladder
