#include "kernels/detail/row_products.cuh"
#include "kernels/detail/spectral_gradient.h"

namespace accrue::cuda {
namespace {

// sums[k] = sum_o w[o, k] * u[o]. One thread for each column, so a warp reads contiguous parts of
// the rows.
template <class T>
__global__ void __launch_bounds__(block_threads)
    column_sums_kernel(double* sums, const T* w, const T* u, int64_t O, int64_t K) {
  for (int64_t k = first_item(); k < K; k += item_stride()) {
    RunningSum<T> sum;
    for (int64_t o = 0; o < O; ++o) sum.add(w[o * K + k] * u[o]);
    sums[k] = sum.total();
  }
}

__device__ double sum_of_pieces(const double* partials, int64_t i, int64_t pieces) {
  double sum = 0;
  for (int64_t p = 0; p < pieces; ++p) sum += partials[i * pieces + p];
  return sum;
}

// x[i] = the sum of its pieces, then x = x / max(|x|, eps). One block, because all elements share
// the norm, and a layer has few rows or columns compared with its elements.
template <class T>
__global__ void __launch_bounds__(block_threads)
    normalize_sums_kernel(T* x, const double* partials, int64_t n, int64_t pieces, double eps) {
  double squares = 0;
  for (int64_t i = threadIdx.x; i < n; i += block_threads) {
    const double sum = sum_of_pieces(partials, i, pieces);
    squares += sum * sum;
    x[i] = static_cast<T>(sum);
  }
  const double norm = std::max(std::sqrt(block_sum<block_threads>(squares)), eps);
  for (int64_t i = threadIdx.x; i < n; i += block_threads) x[i] = static_cast<T>(x[i] / norm);
}

// y = w / sigma. Every block adds up the few partials itself, in the same order; a separate kernel
// would cost more.
template <class T, class W = Wide<T>>
__global__ void __launch_bounds__(block_threads)
    spectral_divide_kernel(T* y, W* sigma, const double* partials, const W* w, const W* u,
                           RowPieces cut) {
  double sum = 0;
  for (int64_t i = threadIdx.x; i < cut.count(); i += block_threads)
    sum += u[i / cut.pieces] * partials[i];
  const W divisor = static_cast<W>(block_sum<block_threads>(sum));
  if (first_item() == 0) *sigma = divisor;
  for (int64_t i = first_item(); i < cut.O * cut.K; i += item_stride()) y[i] = T(w[i] / divisor);
}

// dw may be dy: a thread reads an element before it writes it, and the sums over dy are complete.
// Every block adds up the partials, as above.
template <bool accumulate, class T>
__global__ void __launch_bounds__(block_threads)
    spectral_backward_kernel(T* dw, const double* partials, const T* dy, const T* sigma, const T* u,
                             const T* v, RowPieces cut) {
  double sum = 0;
  for (int64_t i = threadIdx.x; i < cut.count(); i += block_threads) sum += partials[i];
  sum = block_sum<block_threads>(sum);
  const T divisor = *sigma, s = static_cast<T>(sum / divisor);
  for (int64_t i = first_item(); i < cut.O * cut.K; i += item_stride())
    store(dw[i], spectral_gradient(dy[i], s, u[i / cut.K], v[i % cut.K], divisor),
          std::bool_constant<accumulate>{});
}

RowPieces rows_of(const Shape& w) { return {w[0], w.numel(1, w.rank())}; }

}  // namespace

void spectral_normalize(View y, View sigma, View partials, View w, View u, View v) {
  dispatch_floating(
      y.dtype, [&]<class T, class W = Wide<T>>() {
        const RowPieces cut = rows_of(w.shape);
        double* sums = partials.as<double>();
        row_products(sums, w.as<const W>(), v.as<const W>(), 0, cut);
        enqueue(grid_over(w.numel()), spectral_divide_kernel<T>, y.as<T>(), sigma.as<W>(), sums,
                w.as<const W>(), u.as<const W>(), cut);
      });
}

void spectral_normalize_backward(GradTarget dw, View partials, View dy, View w, View sigma, View u,
                                 View v) {
  dispatch_wide(w.dtype, [&]<class T>() {
    const RowPieces cut = rows_of(w.shape);
    double* sums = partials.as<double>();
    row_products(sums, dy.as<const T>(), w.as<const T>(), cut.K, cut);
    with_beta(dw.beta, [&](auto accumulate) {
      enqueue(grid_over(w.numel()), spectral_backward_kernel<accumulate.value, T>, dw.grad.as<T>(),
              sums, dy.as<const T>(), sigma.as<const T>(), u.as<const T>(), v.as<const T>(), cut);
    });
  });
}

void power_iteration(View u, View v, View partials, View w, double eps) {
  dispatch_wide(w.dtype, [&]<class T>() {
    const RowPieces cut = rows_of(w.shape);
    double* sums = partials.as<double>();
    enqueue(grid_over(cut.K), column_sums_kernel<T>, sums, w.as<const T>(), u.as<const T>(), cut.O,
            cut.K);
    enqueue({1}, normalize_sums_kernel<T>, v.as<T>(), sums, cut.K, int64_t{1}, eps);
    row_products(sums, w.as<const T>(), v.as<const T>(), 0, cut);
    enqueue({1}, normalize_sums_kernel<T>, u.as<T>(), sums, cut.O, cut.pieces, eps);
  });
}

}  // namespace accrue::cuda
