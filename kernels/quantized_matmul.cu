#include "kernels/detail/elementwise.cuh"
#include "kernels/detail/widen_run.cuh"
#include "kernels/quantized_blocks.h"
#include "kernels/quantized_matmul.h"

namespace accrue::cuda {
namespace {

// The blocks of a weight, beginning at a slab's first column.
template <class Block>
struct SlabBlocks {
  const Block* first;
  uint32_t row;
  uint32_t row_vectors;  // of the slab
  int64_t row_blocks;    // of the weight
  uint32_t half;         // as stored_row() takes it
};

// A thread writes a vector, so a warp writes 512 contiguous bytes. They come from few blocks, which
// are in the cache after the first read. A slab has far fewer than 2^32 vectors, and a 64-bit
// division would cost as much as the rest.
template <int width, class Block, class T>
__global__ void __launch_bounds__(block_threads)
    widen_kernel(T* out, SlabBlocks<Block> in, uint32_t vectors) {
  constexpr uint32_t elements = elements_in<Block>;
  for (auto v = static_cast<uint32_t>(first_item()); v < vectors;
       v += static_cast<uint32_t>(item_stride())) {
    const uint32_t row = v / in.row_vectors, column = v % in.row_vectors * width;
    const Block* const from = in.first + stored_row(in.row + row, in.half) * in.row_blocks;
    Vector<T, width> widened;
    if constexpr (elements > 1) {
      widen_run<width>(from[column / elements], static_cast<int>(column % elements),
                       widened.values);
    } else {
      const auto numbers = load_vector<width>(from, column / width);
      for (int k = 0; k < width; ++k) widen(numbers.values[k], widened.values + k);
    }
    store_vector(out, v, widened);
  }
}

}  // namespace

void widen_slab(View out, View w, int64_t row, int64_t column) {
  dispatch_blocks(w.dtype, [&]<class Block>() {
    dispatch_floating(out.dtype, [&]<class T>() {
      constexpr int64_t elements = elements_in<Block>;
      const int64_t columns = out.shape[1], of_row = matrix_shape(w.shape)[1];
      const auto run = [&](auto width) {
        const int64_t vectors = out.numel() / width;
        const SlabBlocks<Block> in{static_cast<const Block*>(w.data) + column / elements,
                                   static_cast<uint32_t>(row),
                                   static_cast<uint32_t>(columns / width), of_row / elements,
                                   static_cast<uint32_t>(half_head(w.shape))};
        enqueue(grid_over(vectors), widen_kernel<width.value, Block, T>, out.as<T>(), in,
                static_cast<uint32_t>(vectors));
      };
      // Slabs of a block type have whole blocks, in aligned scratch. Rows of plain numbers may have
      // any length.
      if constexpr (elements > 1) run(std::integral_constant<int, 16 / sizeof(T)>{});
      else with_width<T>(columns | of_row | column, {out.data, w.data}, run);
    });
  });
}

}  // namespace accrue::cuda
