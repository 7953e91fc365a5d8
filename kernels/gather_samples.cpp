#include "kernels/gather_samples.h"

#include "kernels/backend.h"
#include "kernels/formulas.h"

namespace accrue {
namespace cpu {

void gather_samples(View images, View labels, View samples, View all_images, View all_labels,
                    View index) {
  const int64_t N = all_labels.numel(), n = index.numel();
  const int64_t pixels = images.numel() / std::max<int64_t>(n, 1);
  const uint8_t* source = all_images.as<const uint8_t>();
  const int32_t* picked = index.as<const int32_t>();
  for (int64_t k = 0; k < n; ++k) {
    check(0 <= picked[k] && picked[k] < N, "sample {} is not in a data set of {} samples",
          picked[k], N);
    if (samples.data) samples.as<int32_t>()[k] = picked[k];
    labels.as<int32_t>()[k] = all_labels.as<const int32_t>()[picked[k]];
  }
  dispatch_floating(images.dtype, [&]<class T>() {
    for (int64_t k = 0; k < n; ++k) {
      // Shuffled samples are not in cache: asking for the next one early is three times as fast.
      if (k + 1 < n)
        for (int64_t b = 0; b < pixels; b += 64)
          __builtin_prefetch(source + picked[k + 1] * pixels + b);
      T* out = images.as<T>() + k * pixels;
      const uint8_t* in = source + picked[k] * pixels;
      for (int64_t i = 0; i < pixels; ++i) out[i] = formula::Pixel{}.operator()<T>(in[i]);
    }
  });
}

}  // namespace cpu

// In the .cu beside this file.
namespace cuda {
decltype(cpu::gather_samples) gather_samples;
}  // namespace cuda

void gather_samples(View images, View labels, View samples, View all_images, View all_labels,
                    View index) {
  check(labels.numel() == index.numel() && all_images.shape[0] == all_labels.numel() &&
            images.shape == all_images.shape.with(0, index.numel()),
        "[gather_samples] images {} and labels {} of {} samples from images {} and labels {}",
        images.shape, labels.shape, index.numel(), all_images.shape, all_labels.shape);
  launch<cpu::gather_samples, cuda::gather_samples>(images.device, images, labels, samples,
                                                    all_images, all_labels, index);
}

}  // namespace accrue
