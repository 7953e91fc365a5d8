#include <limits>

#include "kernels/detail/elementwise.cuh"
#include "kernels/detail/pixel_planes.h"

namespace accrue::cuda {
namespace {

// Rows of a field, `size` elements each.
struct Rows {
  Encoding encoding;
  bool are_double;  // numbers
  void* out;
  const void* all;
  int64_t size;
  PixelPlanes planes;
};
struct Fields {
  Rows rows[most_fields];
  int count;
};

// out[i] = f(in[i]) for i < size, or `missing` if the sample does not exist. A block's threads lie
// along the elements.
template <class T, class S, class F>
__device__ void gather_plane(T* out, const S* in, int64_t size, bool exists, F f, T missing) {
  for (int64_t i = threadIdx.x; i < size; i += blockDim.x)
    out[i] = exists ? T(f.template operator()<Wide<T>>(in[i])) : missing;
}

// out[k, :] = f(all[sample, :])
template <class T, class S, class F>
__device__ void gather_row(const Rows& rows, int64_t k, int32_t sample, bool exists, F f,
                           T missing) {
  gather_plane(static_cast<T*>(rows.out) + k * rows.size,
               static_cast<const S*>(rows.all) + sample * rows.size, rows.size, exists, f, missing);
}

// Gathers a sample's planes, each with its own formula.
template <class T>
__device__ void gather_pixels(const Rows& rows, int64_t k, int32_t sample, bool exists, T missing) {
  const int64_t plane = rows.size / rows.planes.count;
  T* out = static_cast<T*>(rows.out) + k * rows.size;
  const auto* in = static_cast<const uint8_t*>(rows.all) + sample * rows.size;
  for (int p = 0; p < rows.planes.count; ++p, out += plane, in += plane)
    gather_plane(out, in, plane, exists, rows.planes.formulas[p], missing);
}

// The last block to call this does position[0] += n, when all blocks have read it. position[1]
// counts the blocks.
__device__ void advance(int32_t* position, int32_t n) {
  __threadfence();
  __syncthreads();
  if (threadIdx.x != 0 || atomicAdd(&position[1], 1) != int32_t(gridDim.x) - 1) return;
  position[0] += n;
  position[1] = 0;
}

// One block for each sample: it reads the index once for the whole image, and both sides of the
// copy are contiguous. Without these bounds, the compiler spills registers to fit one block more on
// a multiprocessor.
template <class T>
__global__ void __launch_bounds__(block_threads, sizeof(T) == sizeof(double) ? 4 : 5)
    gather_samples_kernel(Fields fields, int32_t* samples, const int32_t* index, int32_t* position,
                          int64_t n, int64_t N) {
  const T nan = T(std::numeric_limits<Wide<T>>::quiet_NaN());
  if (position) index += position[0];
  for (int64_t k = blockIdx.x; k < n; k += gridDim.x) {
    const int32_t sample = index[k];
    const bool exists = 0 <= sample && sample < N;
    if (threadIdx.x == 0 && samples) samples[k] = sample;
    for (int f = 0; f < fields.count; ++f) {
      const Rows& rows = fields.rows[f];
      switch (rows.encoding) {
        case Encoding::pixel: gather_pixels<T>(rows, k, sample, exists, nan); break;
        case Encoding::mask:
          gather_row<T, uint8_t>(rows, k, sample, exists, formula::MaskPixel{}, nan);
          break;
        case Encoding::number:
          if (rows.are_double) gather_row<T, double>(rows, k, sample, exists, formula::Same{}, nan);
          else gather_row<T, float>(rows, k, sample, exists, formula::Same{}, nan);
          break;
        case Encoding::weight:  // of as many bytes, and -1 is a NaN there
        case Encoding::index:
          gather_row<int32_t, int32_t>(rows, k, sample, exists, formula::Same{}, int32_t{-1});
          break;
      }
    }
  }
  if (position) advance(position, int32_t(n));
}

// The floating type of the fields; any if there is none.
DType floating_of(std::span<const FieldViews> fields) {
  for (const FieldViews& field : fields)
    if (!comes_as_stored(field.encoding)) return field.out.dtype;
  return DType::f32;
}

}  // namespace

void gather_samples(std::span<const FieldViews> fields, View samples, View index, View position) {
  const int64_t n = fields.front().out.shape[0];
  Fields all{};
  for (const auto& [encoding, out, whole, normalization] : fields)
    all.rows[all.count++] = {
        encoding,        whole.dtype == DType::f64,
        out.data,        whole.data,
        out.numel() / n, encoding == Encoding::pixel ? PixelPlanes(normalization) : PixelPlanes()};
  dispatch_floating(floating_of(fields), [&]<class T>() {
    enqueue(grid_over(n * block_threads), gather_samples_kernel<T>, all,
            samples.data ? samples.as<int32_t>() : nullptr, index.as<const int32_t>(),
            position.data ? position.as<int32_t>() : nullptr, n, fields.front().all.shape[0]);
  });
}

}  // namespace accrue::cuda
