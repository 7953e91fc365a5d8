#include "kernels/detail/elementwise.cuh"
#include "kernels/quantized_blocks.h"
#include "kernels/quantized_matmul.h"

namespace accrue::cuda {
namespace {

// The blocks of a weight from a slab's first column on.
template <class Block>
struct SlabBlocks {
  const Block* first;
  int64_t row;
  int64_t of_slab, of_row;  // blocks of a row of the slab, and of the weight
  int64_t half;             // as stored_row() takes it
};

// A thread widens a block: what it writes has no holes, and neighbours' blocks follow.
template <class Block, class T>
__global__ void __launch_bounds__(block_threads)
    widen_kernel(T* out, SlabBlocks<Block> in, int64_t count) {
  for (int64_t i = first_item(); i < count; i += item_stride()) {
    const int64_t row = stored_row(in.row + i / in.of_slab, in.half);
    widen(in.first[row * in.of_row + i % in.of_slab], out + i * elements_in<Block>);
  }
}

}  // namespace

void widen_slab(View out, View w, int64_t row, int64_t column) {
  dispatch_blocks(w.dtype, [&]<class Block>() {
    dispatch_floating(out.dtype, [&]<class T>() {
      constexpr int64_t elements = elements_in<Block>;
      const SlabBlocks<Block> in{static_cast<const Block*>(w.data) + column / elements, row,
                                 out.shape[1] / elements, matrix_shape(w.shape)[1] / elements,
                                 half_head(w.shape)};
      const int64_t count = out.shape[0] * in.of_slab;
      enqueue(grid_over(count), widen_kernel<Block, T>, out.as<T>(), in, count);
    });
  });
}

}  // namespace accrue::cuda
