#include "kernels/detail/elementwise.cuh"
#include "kernels/detail/row_products.cuh"

namespace accrue::cuda {
namespace {

// Each thread reads gamma, which is in the device's memory.
template <class W>
struct AddScaled {
  const W* gamma;
  HOST_DEVICE W operator()(W x, W a) const { return x + *gamma * a; }
};

// One block suffices for the few sums of pieces.
template <bool accumulate, class W>
__global__ void __launch_bounds__(block_threads)
    factor_gradient_kernel(W* dgamma, const double* partials, int64_t count) {
  double sum = 0;
  for (int64_t i = threadIdx.x; i < count; i += block_threads) sum += partials[i];
  sum = block_sum<block_threads>(sum);
  if (threadIdx.x == 0) store(*dgamma, static_cast<W>(sum), std::bool_constant<accumulate>{});
}

}  // namespace

void scale_add(View y, View x, View gamma, View a) {
  dispatch_floating(
      y.dtype, [&]<class T, class W = Wide<T>>() {
        elementwise(y.as<T>(), 0, y.numel(), AddScaled<W>{gamma.as<const W>()}, x.as<const T>(),
                    a.as<const T>());
      });
}

void scale_add_factor_backward(GradTarget dgamma, View dy, View a, View scratch) {
  dispatch_floating(
      dy.dtype, [&]<class T, class W = Wide<T>>() {
        double* sums = scratch.as<double>();
        row_products(sums, dy.as<const T>(), a.as<const T>(), 0, RowPieces(1, dy.numel()));
        with_beta(dgamma.beta, [&](auto accumulate) {
          enqueue({1}, factor_gradient_kernel<accumulate.value, W>, dgamma.grad.as<W>(), sums,
                  scratch.numel());
        });
      });
}

}  // namespace accrue::cuda
