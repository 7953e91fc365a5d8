#include <limits>

#include "kernels/detail/elementwise.cuh"
#include "kernels/detail/reduce.cuh"
#include "kernels/quantized_blocks.h"

namespace accrue::cuda {
namespace {

// A thread copies whole vectors of a row of w, a grid apart. A warp reads and writes contiguous
// parts of rows.
template <int width, class T>
__global__ void __launch_bounds__(block_threads)
    embedding_kernel(T* y, const T* w, const int32_t* index, int64_t N, int64_t V, int64_t D) {
  using Part = Vector<T, width>;
  const int64_t parts = D / width;
  for (int64_t i = first_item(); i < N * parts; i += item_stride()) {
    const int64_t v = index[i / parts];
    Part part;
    if (0 <= v && v < V) part = reinterpret_cast<const Part*>(w)[v * parts + i % parts];
    else
      for (T& value : part.values) value = T(std::numeric_limits<Wide<T>>::quiet_NaN());
    reinterpret_cast<Part*>(y)[i] = part;
  }
}

// A thread widens one block of a row of w.
template <class Block, class T>
__global__ void __launch_bounds__(block_threads)
    widened_embedding_kernel(T* y, const Block* w, const int32_t* index, int64_t N, int64_t V,
                             int64_t blocks) {
  constexpr int elements = elements_in<Block>;
  for (int64_t i = first_item(); i < N * blocks; i += item_stride()) {
    const int64_t v = index[i / blocks];
    T* const out = y + i * elements;
    if (0 <= v && v < V) widen(w[v * blocks + i % blocks], out);
    else
      for (int e = 0; e < elements; ++e) out[e] = T(std::numeric_limits<Wide<T>>::quiet_NaN());
  }
}

// A tile of dw has a row for each warp and a vector of columns for each lane.
constexpr int64_t tile_rows = block_threads / warp_threads;
HOST_DEVICE int64_t tiles_across(int64_t parts) {
  return (parts + warp_threads - 1) / warp_threads;
}
HOST_DEVICE int64_t tiles_down(int64_t V) { return (V + tile_rows - 1) / tile_rows; }

// A block owns tiles of dw, a grid apart, and reads all indices for each tile, one per thread at a
// time. If an index names a row of the tile, each warp searches for its own row, 32 indices at a
// time, and adds the matching rows of dy in registers: in the order of n, without atomics. If w has
// many rows, most groups of indices name no row of the tile and cost no more than their load.
template <int width, bool accumulate, class T>
__global__ void __launch_bounds__(block_threads)
    embedding_backward_kernel(Wide<T>* dw, const T* dy, const int32_t* index, int64_t N, int64_t V,
                              int64_t D, int32_t padding) {
  using Part = Vector<Wide<T>, width>;
  __shared__ int32_t staged[block_threads];
  const int lane = threadIdx.x % warp_threads, warp = threadIdx.x / warp_threads;
  const int64_t parts = D / width, across = tiles_across(parts);
  for (int64_t tile = blockIdx.x; tile < tiles_down(V) * across; tile += gridDim.x) {
    const int64_t first_row = tile / across * tile_rows, v = first_row + warp;
    const int64_t part = tile % across * warp_threads + lane;
    const bool owns = v < V && part < parts;
    Part sum{};
    bool named = false;
    for (int64_t begin = 0; begin < N; begin += block_threads) {
      const int64_t n = begin + threadIdx.x;
      const int32_t given = n < N ? index[n] : -1, mine = given == padding ? -1 : given;
      // This barrier also keeps `staged` until every warp has read its former content.
      if (!__syncthreads_or(first_row <= mine && mine < first_row + tile_rows)) continue;
      staged[threadIdx.x] = mine;
      __syncthreads();
      for (int k = 0; k < block_threads; k += warp_threads)
        for (unsigned found = __ballot_sync(whole_warp, staged[k + lane] == v); found != 0;
             found &= found - 1) {
          named = true;
          if (!owns) continue;
          const int64_t row = begin + k + __ffs(static_cast<int>(found)) - 1;
          const auto add = reinterpret_cast<const Vector<T, width>*>(dy)[row * parts + part];
          for (int w = 0; w < width; ++w) sum.values[w] += add.values[w];
        }
    }
    if (!owns || (accumulate && !named)) continue;
    Part& target = reinterpret_cast<Part*>(dw)[v * parts + part];
    Part out;
    if constexpr (accumulate) out = target;
    for (int w = 0; w < width; ++w)
      store(out.values[w], sum.values[w], std::bool_constant<accumulate>{});
    target = out;
  }
}

}  // namespace

void embedding(View y, View w, View index) {
  if (w.dtype != y.dtype)
    return dispatch_blocks(w.dtype, [&]<class Block>() {
      dispatch_floating(y.dtype, [&]<class T>() {
        const int64_t blocks = y.shape[1] / elements_in<Block>;
        enqueue(grid_over(y.shape[0] * blocks), widened_embedding_kernel<Block, T>, y.as<T>(),
                static_cast<const Block*>(w.data), index.as<const int32_t>(), y.shape[0],
                w.shape[0], blocks);
      });
    });
  dispatch_floating(w.dtype, [&]<class T>() {
    const int64_t N = y.shape[0], D = y.shape[1], V = w.shape[0];
    with_width<T>(D, {y.data, w.data}, [&](auto width) {
      enqueue(grid_over(N * D / width), embedding_kernel<width.value, T>, y.as<T>(),
              w.as<const T>(), index.as<const int32_t>(), N, V, D);
    });
  });
}

void embedding_backward(GradTarget dw, View dy, View index, int64_t padding) {
  dispatch_floating(dy.dtype, [&]<class T>() {
    const int64_t N = dy.shape[0], D = dy.shape[1], V = dw.grad.shape[0];
    with_beta(dw.beta, [&](auto accumulate) {
      with_width<T>(D, {dw.grad.data, dy.data}, [&](auto width) {
        enqueue(grid_over(tiles_down(V) * tiles_across(D / width) * block_threads),
                embedding_backward_kernel<width.value, accumulate.value, T>, dw.grad.as<Wide<T>>(),
                dy.as<const T>(), index.as<const int32_t>(), N, V, D,
                static_cast<int32_t>(padding));
      });
    });
  });
}

}  // namespace accrue::cuda
