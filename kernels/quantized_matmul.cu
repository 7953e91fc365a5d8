#include "kernels/detail/elementwise.cuh"
#include "kernels/quantized_blocks.h"
#include "kernels/quantized_matmul.h"

namespace accrue::cuda {
namespace {

// A thread widens a block: what it writes has no holes, and neighbours' blocks follow. `of_slab`
// and `of_row` are the blocks of a row of the slab and of the weight.
template <class Block, class T>
__global__ void __launch_bounds__(block_threads)
    widen_kernel(T* out, const Block* blocks, int64_t of_slab, int64_t of_row, int64_t count) {
  for (int64_t i = first_item(); i < count; i += item_stride())
    widen(blocks[i / of_slab * of_row + i % of_slab], out + i * elements_in<Block>);
}

}  // namespace

void widen_slab(View out, View w, int64_t row, int64_t column) {
  dispatch_blocks(w.dtype, [&]<class Block>() {
    dispatch_floating(out.dtype, [&]<class T>() {
      constexpr int64_t elements = elements_in<Block>;
      const int64_t of_row = w.shape[1] / elements, of_slab = out.shape[1] / elements;
      const int64_t count = out.shape[0] * of_slab;
      enqueue(grid_over(count), widen_kernel<Block, T>, out.as<T>(),
              static_cast<const Block*>(w.data) + row * of_row + column / elements, of_slab, of_row,
              count);
    });
  });
}

}  // namespace accrue::cuda
