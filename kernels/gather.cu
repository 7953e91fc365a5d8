#include <limits>

#include "kernels/detail/elementwise.cuh"
#include "kernels/detail/gather_kernels.h"
#include "kernels/detail/reduce.cuh"

namespace accrue::cuda {
namespace {

// A thread has vectors of `width` neighbouring lanes of y, a grid apart: a warp writes contiguous
// memory. Only a shared index has vectors wider than one.
template <int width, class T>
__global__ void __launch_bounds__(block_threads)
    gather_elements_kernel(T* y, const T* x, const int32_t* index, Gathering shape) {
  using Part = Vector<T, width>;
  const int64_t parts = shape.I / width, count = shape.O * shape.K * parts;
  for (int64_t n = first_item(); n < count; n += item_stride()) {
    const int64_t row = n / parts, o = row / shape.K, k = row % shape.K, part = n % parts;
    const int64_t v = index[shape.index_at(o, k, part)];
    Part values;
    if (0 <= v && v < shape.V)
      values = reinterpret_cast<const Part*>(x)[(o * shape.V + v) * parts + part];
    else
      for (T& value : values.values) value = T(std::numeric_limits<Wide<T>>::quiet_NaN());
    reinterpret_cast<Part*>(y)[n] = values;
  }
}

// A thread has elements of dx a grid apart, and goes over the picks of its lane in order:
// neighbours read neighbouring numbers of the index, or the same one. Elements that none names are
// left alone when added to.
template <bool accumulate, class T>
__global__ void __launch_bounds__(block_threads)
    gather_elements_backward_kernel(T* dx, const T* dy, const int32_t* index, Gathering shape) {
  const int64_t count = shape.lanes() * shape.V;
  for (int64_t n = first_item(); n < count; n += item_stride()) {
    const int64_t i = n % shape.I, row = n / shape.I, o = row / shape.V, v = row % shape.V;
    Wide<T> sum = 0;
    bool named = false;
    for (int64_t k = 0; k < shape.K; ++k) {
      if (index[shape.index_at(o, k, i)] != v) continue;
      sum += dy[(o * shape.K + k) * shape.I + i];
      named = true;
    }
    if (named || !accumulate) store(dx[n], sum, std::bool_constant<accumulate>{});
  }
}

// A tile of dx: rows v, one a warp, by neighbouring lanes.
constexpr int64_t rows_of_tile = block_threads / warp_threads;

// For a shared index: a block owns tiles of dx, a grid apart, and reads all of the index for each,
// a thread one number at a time. Where one of them names a row of the tile, each warp looks for its
// own row, 32 numbers at a time, and adds what it finds of dy in registers: in the order of k,
// without atomics.
template <bool accumulate, class T>
__global__ void __launch_bounds__(block_threads)
    index_select_backward_kernel(T* dx, const T* dy, const int32_t* index, Gathering shape,
                                 int64_t tiles) {
  __shared__ int32_t staged[block_threads];
  const int lane = threadIdx.x % warp_threads, warp = threadIdx.x / warp_threads;
  const int64_t across = (shape.I + warp_threads - 1) / warp_threads;
  const int64_t down = (shape.V + rows_of_tile - 1) / rows_of_tile;
  for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const int64_t o = tile / (across * down), first_row = tile / across % down * rows_of_tile;
    const int64_t v = first_row + warp, i = tile % across * warp_threads + lane;
    const bool owns = v < shape.V && i < shape.I;
    Wide<T> sum = 0;
    bool named = false;
    for (int64_t begin = 0; begin < shape.K; begin += block_threads) {
      const int64_t k = begin + threadIdx.x;
      const int32_t mine = k < shape.K ? index[k] : -1;
      // Also keeps staged until every warp has read what it held before.
      if (!__syncthreads_or(first_row <= mine && mine < first_row + rows_of_tile)) continue;
      staged[threadIdx.x] = mine;
      __syncthreads();
      for (int part = 0; part < block_threads; part += warp_threads)
        for (unsigned found = __ballot_sync(whole_warp, staged[part + lane] == v); found != 0;
             found &= found - 1) {
          named = true;
          const int64_t row = begin + part + __ffs(static_cast<int>(found)) - 1;
          if (owns) sum += dy[(o * shape.K + row) * shape.I + i];
        }
    }
    if (owns && (named || !accumulate))
      store(dx[(o * shape.V + v) * shape.I + i], sum, std::bool_constant<accumulate>{});
  }
}

}  // namespace

void gather_elements(View y, View x, View index, const Gathering& shape) {
  const auto* const numbers = index.as<const int32_t>();
  dispatch_floating(x.dtype, [&]<class T>() {
    with_width<T>(shape.is_shared ? shape.I : 1, {y.data, x.data}, [&](auto width) {
      enqueue(grid_over(y.numel() / width), gather_elements_kernel<width.value, T>, y.as<T>(),
              x.as<const T>(), numbers, shape);
    });
  });
}

void gather_elements_backward(GradTarget dx, View dy, View index, View, const Gathering& shape) {
  const auto* const numbers = index.as<const int32_t>();
  dispatch_floating(dy.dtype, [&]<class T>() {
    with_beta(dx.beta, [&](auto accumulate) {
      // A tile of few lanes leaves most threads idle.
      if (shape.is_shared && shape.I >= warp_threads / 2) {
        const int64_t tiles = shape.O * ceil_div<int64_t>(shape.V, rows_of_tile) *
                              ceil_div<int64_t>(shape.I, warp_threads);
        enqueue(grid_over(tiles * block_threads), index_select_backward_kernel<accumulate.value, T>,
                dx.grad.as<T>(), dy.as<const T>(), numbers, shape, tiles);
      } else {
        enqueue(grid_over(dx.grad.numel()), gather_elements_backward_kernel<accumulate.value, T>,
                dx.grad.as<T>(), dy.as<const T>(), numbers, shape);
      }
    });
  });
}

}  // namespace accrue::cuda
