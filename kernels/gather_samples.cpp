#include "kernels/gather_samples.h"

#include "kernels/backend.h"
#include "kernels/formulas.h"

namespace accrue {
namespace cpu {
namespace {

// rows[k, :] = f(all[index[k], :])
template <class F>
void gather_rows(View rows, View all, View index, F f) {
  const int64_t n = index.numel(), size = rows.numel() / std::max<int64_t>(n, 1);
  const uint8_t* source = all.as<const uint8_t>();
  const int32_t* picked = index.as<const int32_t>();
  dispatch_floating(rows.dtype, [&]<class T>() {
    for (int64_t k = 0; k < n; ++k) {
      // Shuffled samples are not in cache: asking for the next one early is three times as fast.
      if (k + 1 < n)
        for (int64_t b = 0; b < size; b += 64)
          __builtin_prefetch(source + picked[k + 1] * size + b);
      T* out = rows.as<T>() + k * size;
      const uint8_t* in = source + picked[k] * size;
      for (int64_t i = 0; i < size; ++i) out[i] = T(f.template operator()<Wide<T>>(in[i]));
    }
  });
}

}  // namespace

void gather_samples(const SampleViews& out, View samples, const SampleViews& all, View index) {
  const int64_t N = all.images.shape[0], n = index.numel();
  const int32_t* picked = index.as<const int32_t>();
  for (int64_t k = 0; k < n; ++k) {
    check(0 <= picked[k] && picked[k] < N, "sample {} is not in a data set of {} samples",
          picked[k], N);
    if (samples.data) samples.as<int32_t>()[k] = picked[k];
    if (out.labels.data) out.labels.as<int32_t>()[k] = all.labels.as<const int32_t>()[picked[k]];
  }
  gather_rows(out.images, all.images, index, formula::Pixel{});
  if (out.masks.data) gather_rows(out.masks, all.masks, index, formula::MaskPixel{});
}

}  // namespace cpu

// As many rows of the data set as there are indices.
template <>
struct WorkOf<cpu::gather_samples> {
  Work operator()(const SampleViews& out, const View& samples, const SampleViews& all,
                  const View& index) const {
    const double share = double(index.numel()) / double(all.images.shape[0]);
    const auto bytes = [&](const View& part, const View& whole) {
      return part.data ? bytes_of(part) + share * bytes_of(whole) : 0;
    };
    return {.bytes = bytes(out.images, all.images) + bytes(out.labels, all.labels) +
                     bytes(out.masks, all.masks) + bytes_of(samples) + bytes_of(index)};
  }
};

// In the .cu beside this file.
namespace cuda {
decltype(cpu::gather_samples) gather_samples;
}  // namespace cuda

void gather_samples(const SampleViews& out, View samples, const SampleViews& all, View index) {
  const auto fits = [&](View part, View whole) {
    return !part.data || part.shape == whole.shape.with(0, index.numel());
  };
  check(fits(out.images, all.images) && fits(out.labels, all.labels) && fits(out.masks, all.masks),
        "[gather_samples] images {}, labels {} and masks {} of {} samples from images {}, labels "
        "{} and masks {}",
        out.images.shape, out.labels.shape, out.masks.shape, index.numel(), all.images.shape,
        all.labels.shape, all.masks.shape);
  launch<cpu::gather_samples, cuda::gather_samples>(out.images.device, out, samples, all, index);
}

}  // namespace accrue
