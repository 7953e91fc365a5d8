#include <limits>

#include "kernels/elementwise.cuh"
#include "kernels/formulas.h"
#include "kernels/gather_samples.h"

namespace accrue::cuda {
namespace {

// Floating rows and the bytes they come from, `size` elements each; none if rows is null.
template <class T>
struct Rows {
  T* rows;
  const uint8_t* all;
  int64_t size;

  Rows(View rows, View all, int64_t n)
      : rows(rows.data ? rows.as<T>() : nullptr),
        all(rows.data ? all.as<const uint8_t>() : nullptr),
        size(rows.data ? rows.numel() / n : 0) {}
};

// rows[k, :] = f(all[sample, :]), or NaN where there is no such sample: a block's threads along the
// elements.
template <class T, class F>
__device__ void gather_row(const Rows<T>& x, int64_t k, int32_t sample, bool exists, F f) {
  for (int64_t i = threadIdx.x; i < x.size; i += blockDim.x)
    x.rows[k * x.size + i] = T(exists ? f.template operator()<Wide<T>>(x.all[sample * x.size + i])
                                      : std::numeric_limits<Wide<T>>::quiet_NaN());
}

// A block for each sample: the index and the label are read once for the whole image, and both
// sides of the copy are contiguous.
template <class T>
__global__ void __launch_bounds__(block_threads)
    gather_samples_kernel(Rows<T> images, Rows<T> masks, int32_t* labels, const int32_t* all_labels,
                          int32_t* samples, const int32_t* index, int64_t n, int64_t N) {
  for (int64_t k = blockIdx.x; k < n; k += gridDim.x) {
    const int32_t sample = index[k];
    const bool exists = 0 <= sample && sample < N;
    if (threadIdx.x == 0) {
      if (labels) labels[k] = exists ? all_labels[sample] : -1;
      if (samples) samples[k] = sample;
    }
    gather_row(images, k, sample, exists, formula::Pixel{});
    gather_row(masks, k, sample, exists, formula::MaskPixel{});
  }
}

template <class T>
T* data_of(View x) {
  return x.data ? x.as<T>() : nullptr;
}

}  // namespace

void gather_samples(const SampleViews& out, View samples, const SampleViews& all, View index) {
  const int64_t n = index.numel();
  if (n == 0) return;
  dispatch_floating(out.images.dtype, [&]<class T>() {
    enqueue(grid_over(n * block_threads), gather_samples_kernel<T>,
            Rows<T>(out.images, all.images, n), Rows<T>(out.masks, all.masks, n),
            data_of<int32_t>(out.labels), data_of<const int32_t>(all.labels),
            data_of<int32_t>(samples), index.as<const int32_t>(), n, all.images.shape[0]);
  });
}

}  // namespace accrue::cuda
