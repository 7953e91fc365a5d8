#include "kernels/detail/elementwise.cuh"
#include "kernels/quantized_blocks.h"
#include "kernels/quantized_matmul.h"

namespace accrue::cuda {
namespace {

// A thread widens a block: what it writes has no holes, and neighbours' blocks follow.
template <class Block, class T>
__global__ void __launch_bounds__(block_threads)
    widen_kernel(T* out, const Block* blocks, int64_t count) {
  for (int64_t i = first_item(); i < count; i += item_stride())
    widen(blocks[i], out + i * elements_in<Block>);
}

}  // namespace

void widen_rows(View out, View w, int64_t begin) {
  dispatch_blocks(w.dtype, [&]<class Block>() {
    dispatch_floating(out.dtype, [&]<class T>() {
      const int64_t of_row = w.shape[1] / elements_in<Block>, count = out.shape[0] * of_row;
      enqueue(grid_over(count), widen_kernel<Block, T>, out.as<T>(),
              static_cast<const Block*>(w.data) + begin * of_row, count);
    });
  });
}

}  // namespace accrue::cuda
