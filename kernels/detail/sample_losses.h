#pragma once

#include <cmath>

#include "kernels/detail/class_terms.h"
#include "kernels/detail/formulas.h"

namespace accrue {

namespace detail::formula {

// |x - t| with a parabola around 0.
struct SmoothError {
  double beta;

  template <class T>
  HOST_DEVICE T operator()(T x, T t) const {
    const T d = std::abs(x - t), b = T(beta);
    return d < b ? d * d / (2 * b) : d - b / 2;
  }
  template <class T>
  HOST_DEVICE T slope_at(T x, T t) const {
    const T d = x - t;
    return std::abs(d) < T(beta) ? d / T(beta) : T(d > 0) - T(d < 0);
  }
};

}  // namespace detail::formula

// The formulas of losses of samples: l(x, t) and dl/dx, of class c. For both devices.
template <class F>
struct ElementLoss {
  F f;
  template <class T>
  HOST_DEVICE T value(T x, T t, int64_t) const {
    return f(x, t);
  }
  template <class T>
  HOST_DEVICE T slope(T x, T t, int64_t) const {
    return f.slope_at(x, t);
  }
};

// bce_with_logits() as p t softplus(-x) + (1 - t) softplus(x): neither term is negative, so that no
// digits cancel.
struct PositiveLogistic {
  const double* weights;  // of the classes; null: 1

  explicit PositiveLogistic(const View& w) : weights(w.data ? w.as<const double>() : nullptr) {}

  template <class T>
  HOST_DEVICE T value(T x, T t, int64_t c) const {
    const T p = probability(t), tail = std::log1p(std::exp(-std::abs(x)));
    const T above = (x > 0 ? x : T(0)) + tail, below = (x < 0 ? -x : T(0)) + tail;
    return weight<T>(c) * p * below + (1 - p) * above;
  }
  template <class T>
  HOST_DEVICE T slope(T x, T t, int64_t c) const {
    const T p = probability(t);
    return (1 - p) * formula::Sigmoid{}(x)-weight<T>(c) * p * formula::Sigmoid{}(-x);
  }

 private:
  template <class T>
  HOST_DEVICE T weight(int64_t c) const {
    return weights ? T(weights[c]) : T(1);
  }
  // NaN where t is none, because a kernel on a device cannot throw.
  template <class T>
  HOST_DEVICE static T probability(T t) {
    return t >= 0 && t <= 1 ? t : std::numeric_limits<T>::quiet_NaN();
  }
};

// Where an element of samples [N, C, ...] is.
struct SampleShape {
  int64_t of_sample, classes, of_class;

  explicit SampleShape(const Shape& x)
      : of_sample(x.numel() / x[0]),
        classes(x.rank() > 1 ? x[1] : 1),
        of_class(of_sample / classes) {}
  HOST_DEVICE int64_t sample(int64_t i) const { return i / of_sample; }
  HOST_DEVICE int64_t class_of(int64_t i) const { return i / of_class % classes; }
};

}  // namespace accrue
