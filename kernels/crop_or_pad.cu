#include "kernels/detail/copy_shifted.h"
#include "kernels/detail/elementwise.cuh"
#include "kernels/detail/reduce.cuh"

namespace accrue::cuda {
namespace {

struct Plane {
  int64_t H, W;
};

// A warp takes a row: it finds the row's place once, and reads and writes contiguously.
template <bool accumulate, class T>
__global__ void __launch_bounds__(block_threads)
    shift_kernel(T* target, const T* source, int64_t rows, Plane to, Plane from, Shift shift) {
  const int lane = threadIdx.x % warp_threads;
  for (int64_t row = first_item() / warp_threads; row < rows; row += item_stride() / warp_threads) {
    const int64_t plane = row / to.H, h = row % to.H + shift.rows;
    const bool inside = h >= 0 && h < from.H;
    for (int64_t column = lane; column < to.W; column += warp_threads) {
      const int64_t w = column + shift.columns;
      const bool seen = inside && w >= 0 && w < from.W;
      store(target[row * to.W + column],
            seen ? widen(source[(plane * from.H + h) * from.W + w]) : Wide<T>(0),
            std::bool_constant<accumulate>{});
    }
  }
}

}  // namespace

void copy_shifted(GradTarget target, View source, Shift shift) {
  const Shape &to = target.grad.shape, &from = source.shape;
  const int64_t rows = to.numel(0, 3);
  dispatch_floating(source.dtype, [&]<class T>() {
    with_beta(target.beta, [&](auto accumulate) {
      enqueue(grid_over(rows * warp_threads), shift_kernel<accumulate.value, T>,
              target.grad.as<T>(), source.as<const T>(), rows, Plane{to[2], to[3]},
              Plane{from[2], from[3]}, shift);
    });
  });
}

}  // namespace accrue::cuda
