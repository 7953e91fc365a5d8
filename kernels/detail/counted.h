#pragma once

#include <string_view>

#include "kernels/backend.h"
#include "kernels/judged.h"

namespace accrue {

// What a loss of pixels' classes is a mean over: samples of so many pixels, or as much of them as
// is judged, which the device alone knows. For both devices.
class Counted {
 public:
  Counted(int64_t samples, int64_t pixels, View judged)
      : samples_(double(samples)),
        pixels_(double(pixels)),
        judged_(judged.data ? judged.as<const double>() : nullptr) {}

  HOST_DEVICE double samples() const { return judged_ ? *judged_ : samples_; }
  // sum / number of pixels; 0 if there are none.
  template <class T>
  HOST_DEVICE T mean_of(T sum) const {
    const double pixels = samples() * pixels_;
    return pixels > 0 ? sum / static_cast<T>(pixels) : T(0);
  }
  // True for a label that is none, where that may be.
  HOST_DEVICE bool leaves_out(int32_t label) const { return judged_ && label == not_judged; }
  HOST_DEVICE bool may_leave_out() const { return judged_ != nullptr; }

 private:
  double samples_, pixels_;
  const double* judged_;
};

// Counts the pixels of logits x [N, C, H, W]. Throws Error unless `judged` is undefined or a weight
// on x's device.
inline Counted counted_pixels(std::string_view op, const Tensor& x, const Tensor& judged) {
  if (!judged.defined()) return Counted(x.size(0), x.size(2) * x.size(3), View{});
  check(judged.numel() == 1 && judged.dtype() == DType::f64 && judged.device() == x.device(),
        "[{}] judged is {} {} on {}: expected judged_weight(labels), f64 [] on {}", op,
        name(judged.dtype()), judged.shape(), name(judged.device()), name(x.device()));
  return Counted(x.size(0), x.size(2) * x.size(3), judged.view());
}

}  // namespace accrue
