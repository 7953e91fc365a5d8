#pragma once

#include <string_view>

#include "kernels/backend.h"
#include "kernels/judged.h"

namespace accrue {

// The number of places, pixels or tokens, over which a loss of their classes is averaged: all
// places of the samples, or only the judged ones, whose number the device alone knows. For both
// devices.
class Counted {
 public:
  Counted(int64_t samples, int64_t places, View judged)
      : samples_(double(samples)),
        places_(double(places)),
        judged_(judged.data ? judged.as<const double>() : nullptr) {}

  HOST_DEVICE double samples() const { return judged_ ? *judged_ : samples_; }
  // sum / number of places, or 0 if there are no places.
  template <class T>
  HOST_DEVICE T mean_of(T sum) const {
    const double places = samples() * places_;
    return places > 0 ? sum / static_cast<T>(places) : T(0);
  }
  // True if the label means that its place is not judged, and such labels are allowed.
  HOST_DEVICE bool leaves_out(int32_t label) const { return judged_ && label == not_judged; }
  HOST_DEVICE bool may_leave_out() const { return judged_ != nullptr; }

 private:
  double samples_, places_;
  const double* judged_;
};

// Counts `places` places in each sample. Throws Error unless `judged` is undefined or a weight on
// the device.
inline Counted counted_places(std::string_view op, int64_t samples, int64_t places, Device device,
                              const Tensor& judged) {
  if (!judged.defined()) return Counted(samples, places, View{});
  check(judged.numel() == 1 && judged.dtype() == DType::f64 && judged.device() == device,
        "[{}] judged is {} {} on {}: expected judged_weight(labels), f64 [] on {}", op,
        name(judged.dtype()), judged.shape(), name(judged.device()), name(device));
  return Counted(samples, places, judged.view());
}

// Counts the pixels of logits x [N, C, H, W].
inline Counted counted_pixels(std::string_view op, const Tensor& x, const Tensor& judged) {
  return counted_places(op, x.size(0), x.size(2) * x.size(3), x.device(), judged);
}

}  // namespace accrue
