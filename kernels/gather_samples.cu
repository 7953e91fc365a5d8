#include <limits>

#include "kernels/elementwise.cuh"
#include "kernels/formulas.h"
#include "kernels/gather_samples.h"

namespace accrue::cuda {
namespace {

// A block for each image, its threads along the pixels: the index and the label are read once for
// the whole image, and both sides of the copy are contiguous.
template <class T>
__global__ void __launch_bounds__(block_threads)
    gather_samples_kernel(T* images, int32_t* labels, int32_t* samples, const uint8_t* all_images,
                          const int32_t* all_labels, const int32_t* index, int64_t n, int64_t N,
                          int64_t pixels) {
  for (int64_t k = blockIdx.x; k < n; k += gridDim.x) {
    const int32_t sample = index[k];
    const bool exists = 0 <= sample && sample < N;
    if (threadIdx.x == 0) {
      labels[k] = exists ? all_labels[sample] : -1;
      if (samples) samples[k] = sample;
    }
    for (int64_t i = threadIdx.x; i < pixels; i += blockDim.x)
      images[k * pixels + i] = exists
                                   ? formula::Pixel{}.operator()<T>(all_images[sample * pixels + i])
                                   : std::numeric_limits<T>::quiet_NaN();
  }
}

}  // namespace

void gather_samples(View images, View labels, View samples, View all_images, View all_labels,
                    View index) {
  const int64_t n = index.numel();
  if (n == 0) return;
  dispatch_floating(images.dtype, [&]<class T>() {
    enqueue(grid_over(n * block_threads), gather_samples_kernel<T>, images.as<T>(),
            labels.as<int32_t>(), samples.data ? samples.as<int32_t>() : nullptr,
            all_images.as<const uint8_t>(), all_labels.as<const int32_t>(),
            index.as<const int32_t>(), n, all_labels.numel(), images.numel() / n);
  });
}

}  // namespace accrue::cuda
