#pragma once

#include <cmath>
#include <limits>

#include "core/inside.h"
#include "kernels/backend.h"
#include "kernels/pointwise.h"

namespace accrue::detail::formula {

// Formulas of one element, written once for every device. The formulas of activations are in
// kernels/pointwise.h.

// A byte of an image: (x / 255 - mean) * scale.
struct Pixel {
  double mean, scale;

  template <class T>
  HOST_DEVICE T operator()(uint8_t value) const {
    return (static_cast<T>(value) / 255 - T(mean)) * T(scale);
  }
};

// A byte of a mask, from {0, 255} to {0, 1}.
struct MaskPixel {
  template <class T>
  HOST_DEVICE T operator()(uint8_t value) const {
    return static_cast<T>(value) / 255;
  }
};

// A number, unchanged.
struct Same {
  template <class T, class S>
  HOST_DEVICE T operator()(S value) const {
    return static_cast<T>(value);
  }
};

// Losses of one element x against its target t: l(x, t) and dl/dx.

struct SquaredError {
  template <class T>
  HOST_DEVICE T operator()(T x, T t) const {
    return (x - t) * (x - t);
  }
  template <class T>
  HOST_DEVICE T slope_at(T x, T t) const {
    return 2 * (x - t);
  }
};

struct AbsoluteError {
  template <class T>
  HOST_DEVICE T operator()(T x, T t) const {
    return std::abs(x - t);
  }
  template <class T>
  HOST_DEVICE T slope_at(T x, T t) const {
    return T(x > t) - T(x < t);
  }
};

struct LogisticLoss {
  template <class T>
  HOST_DEVICE T operator()(T x, T t) const {
    const T p = probability(t);
    return (x > 0 ? (1 - p) * x : -p * x) + std::log1p(std::exp(-std::abs(x)));
  }
  template <class T>
  HOST_DEVICE T slope_at(T x, T t) const {
    return Sigmoid{}(x)-probability(t);
  }

 private:
  // Returns NaN if t is no probability, because a kernel on a device cannot throw.
  template <class T>
  HOST_DEVICE static T probability(T t) {
    return t >= 0 && t <= 1 ? t : std::numeric_limits<T>::quiet_NaN();
  }
};

// LogisticLoss with one target for all elements.
struct ConstantLogisticLoss {
  double target;

  template <class T>
  HOST_DEVICE T operator()(T x) const {
    return LogisticLoss{}(x, T(target));
  }
  template <class T>
  HOST_DEVICE T slope_at(T x) const {
    return LogisticLoss{}.slope_at(x, T(target));
  }
};

}  // namespace accrue::detail::formula
