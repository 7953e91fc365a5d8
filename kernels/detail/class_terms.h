#pragma once

#include <cmath>
#include <limits>

#include "core/inside.h"
#include "kernels/backend.h"
#include "kernels/judged.h"

namespace accrue {

// The weights of classes in a cross-entropy, for both devices: w of CrossEntropyOptions, 1 for each
// without a view, and its e.
class ClassTerms {
 public:
  ClassTerms(const View& weights, double smoothing, double weight_sum, int64_t C)
      : weights_(weights.data ? weights.as<const double>() : nullptr),
        own_(1 - smoothing),
        each_(smoothing / double(C)),
        sum_(weight_sum) {}

  HOST_DEVICE double weight(int64_t c) const { return weights_ ? weights_[c] : 1; }
  HOST_DEVICE bool smooths() const { return each_ > 0; }
  // q[n, c] / s[n], but for the label's own part.
  HOST_DEVICE double of_class(int64_t c) const { return each_ * weight(c); }
  HOST_DEVICE double of_label(int64_t label) const { return own_ * weight(label); }
  // sum_c q[n, c] / s[n]
  HOST_DEVICE double of_row(int64_t label) const { return of_label(label) + each_ * sum_; }
  HOST_DEVICE double of_all_classes() const { return each_ * sum_; }

 private:
  const double* weights_;
  double own_, each_, sum_;
};

// The weights of samples, for both devices: 1 for each without a view.
class SampleWeights {
 public:
  explicit SampleWeights(const View& weights)
      : weights_(weights.data ? weights.as<const float>() : nullptr) {}

  // NaN for a number that is no weight, because a kernel on a device cannot throw.
  HOST_DEVICE double operator[](int64_t n) const {
    if (!weights_) return 1;
    const float s = weights_[n];
    return s >= 0 && s <= std::numeric_limits<float>::max()
               ? double(s)
               : std::numeric_limits<double>::quiet_NaN();
  }

 private:
  const float* weights_;
};

// sum / weight, 0 if nothing counts; a NaN stays one.
template <class T>
HOST_DEVICE T mean_over(T sum, double weight) {
  return weight == 0 ? T(0) : sum / static_cast<T>(weight);
}

// Throws Error unless s is undefined or f32 [N] beside the others.
inline void check_sample_weights(std::string_view op, const Tensor& s, int64_t N, Device device) {
  if (!s.defined()) return;
  check(s.shape() == Shape{N} && s.dtype() == DType::f32 && s.device() == device,
        "[{}] sample weights {} {} on {}: expected f32 [{}] on {}", op, name(s.dtype()), s.shape(),
        name(s.device()), N, name(device));
  check(!Edge(s).wants_grad(),
        "[{}] the sample weights want a gradient, but are constants here; pass their detach()", op);
}

// Its view, or one without elements.
inline View view_of(const Tensor& x) { return x.defined() ? x.view() : View{}; }

namespace cpu {

inline void check_each_sample_weight(std::string_view op, View s) {
  if (!s.data) return;
  for (int64_t n = 0; n < s.numel(); ++n) {
    const float weight = s.as<const float>()[n];
    check(weight >= 0 && std::isfinite(weight),
          "[{}] the weight of sample {} is {}: expected a finite number that is not negative", op,
          n, weight);
  }
}

}  // namespace cpu

}  // namespace accrue
