#pragma once

#include "kernels/activation.h"
#include "kernels/detail/elementwise.cuh"
#include "kernels/detail/formulas.h"
#include "kernels/detail/reduce.cuh"

// linear() of a small micro-batch. If a GPU computes a product in a microsecond, the launch costs
// most. A library launches a kernel for the product, another for the epilogue and another for the
// bias's gradient. Here forward is one kernel, and the gradients of weights and bias are another.
namespace accrue::cuda {

inline constexpr int64_t small_samples = 64;

// From 2^24 multiplications on the arithmetic begins to count (0.5 us at 67 TFLOP/s), and so does
// the fact that each block reads all samples. Rows are not divided among blocks, so they must not
// be long either.
inline bool is_small_linear(int64_t N, int64_t O, int64_t I) {
  return N <= small_samples && I <= 4096 && N * O * I <= int64_t{1} << 24;
}

// The outputs of a block, and the samples that a warp works on at a time. Each element that a warp
// loads is multiplied four times.
constexpr int small_rows = 4;
constexpr int small_columns = 4;

// y[n, o] = act(sum_i x[n, i] * w[o, i] + b[o]). A warp takes four samples and the block's four
// outputs; its lanes take the vectors of i, a warp's width apart.
template <int width, class T, class W = Wide<T>>
__global__ void __launch_bounds__(block_threads)
    small_forward_kernel(T* y, const T* x, const T* w, const T* b, int64_t N, int64_t O, int64_t I,
                         Activation activation) {
  using Values = Vector<T, width>;
  const int lane = threadIdx.x % warp_threads;
  const int64_t first = int64_t{blockIdx.x} * small_rows, vectors = I / width;
  const auto row_of = [&](const T* matrix, int64_t row, int64_t rows) {
    // Rows beyond the last are computed and not stored.
    return reinterpret_cast<const Values*>(matrix + (row < rows ? row : rows - 1) * I);
  };
  for (int64_t n = threadIdx.x / warp_threads * small_columns; n < N;
       n += block_threads / warp_threads * small_columns) {
    W sums[small_columns * small_rows] = {};
    for (int64_t v = lane; v < vectors; v += warp_threads) {
      Values weights[small_rows];
      for (int r = 0; r < small_rows; ++r) weights[r] = row_of(w, first + r, O)[v];
      for (int c = 0; c < small_columns; ++c) {
        const Values in = row_of(x, n + c, N)[v];
        for (int r = 0; r < small_rows; ++r)
          for (int k = 0; k < width; ++k)
            sums[c * small_rows + r] += widen(in.values[k]) * widen(weights[r].values[k]);
      }
    }
    const W sum = warp_sums(sums);
    constexpr int lanes = warp_threads / (small_columns * small_rows);
    const int64_t sample = n + lane / lanes / small_rows, o = first + lane / lanes % small_rows;
    if (lane % lanes != 0 || sample >= N || o >= O) continue;
    const W value = b ? sum + widen(b[o]) : sum;
    y[sample * O + o] = T(activate(activation, value));
  }
}

// dz = dy * act'(z), written over dy if there is a y. Then
//    dw[o, i] = sum_n dz[n, o] * x[n, i] + beta * dw[o, i]
//    db[o] = sum_n dz[n, o] + beta * db[o]
// A block takes four outputs: their columns of dz, which no other block reads or writes, and their
// rows of dw, in which each thread takes vectors. A result that is not wanted is null. The thread
// that has the first column of dw writes it before db, because they may be the same memory (O = I =
// 1).
template <int width, bool accumulate, class T, class W = Wide<T>>
__global__ void __launch_bounds__(block_threads)
    small_backward_kernel(W* dw, W* db, float db_beta, T* dy, const T* y, Activation activation,
                          const T* x, int64_t N, int64_t O, int64_t I) {
  __shared__ W dz[small_samples][small_rows];
  const int64_t first = int64_t{blockIdx.x} * small_rows;
  for (int64_t k = threadIdx.x; k < N * small_rows; k += blockDim.x) {
    const int64_t n = k / small_rows, r = k % small_rows;
    W d = 0;
    if (first + r < O) {
      T& at = dy[n * O + first + r];
      d = y ? activate_backward(activation, widen(at), widen(y[n * O + first + r])) : widen(at);
      if (y) at = T(d);
    }
    dz[n][r] = d;
  }
  __syncthreads();
  for (int64_t v = threadIdx.x; dw && v < I / width; v += blockDim.x) {
    W sums[small_rows][width] = {};
    for (int64_t n = 0; n < N; ++n) {
      const auto in = reinterpret_cast<const Vector<T, width>*>(x + n * I)[v];
      for (int r = 0; r < small_rows; ++r)
        for (int k = 0; k < width; ++k) sums[r][k] += dz[n][r] * widen(in.values[k]);
    }
    for (int r = 0; r < small_rows && first + r < O; ++r) {
      auto& at = reinterpret_cast<Vector<W, width>*>(dw + (first + r) * I)[v];
      Vector<W, width> out;
      if constexpr (accumulate) out = at;
      for (int k = 0; k < width; ++k)
        store(out.values[k], sums[r][k], std::bool_constant<accumulate>{});
      at = out;
    }
  }
  if (!db || threadIdx.x >= small_rows || first + threadIdx.x >= O) return;
  W sum = 0;
  for (int64_t n = 0; n < N; ++n) sum += dz[n][threadIdx.x];
  W& out = db[first + threadIdx.x];
  out = db_beta == 0 ? sum : sum + out;
}

inline dim3 small_blocks(int64_t O) {
  return static_cast<unsigned>((O + small_rows - 1) / small_rows);
}

inline void small_linear_forward(View y, View x, View w, View b, Activation activation) {
  const int64_t N = x.shape[0], I = x.shape[1], O = w.shape[0];
  if (N == 0 || O == 0) return;
  dispatch_floating(x.dtype, [&]<class T>() {
    with_width<T>(I, {x.data, w.data}, [&](auto width) {
      enqueue(Grid{small_blocks(O)}, small_forward_kernel<width.value, T>, y.as<T>(),
              x.as<const T>(), w.as<const T>(), b.data ? b.as<const T>() : nullptr, N, O, I,
              activation);
    });
  });
}

inline void small_linear_backward(const std::optional<GradTarget>& dw,
                                  const std::optional<GradTarget>& db, View dy, View y,
                                  Activation activation, View x) {
  const int64_t N = x.shape[0], I = x.shape[1], O = dy.shape[1];
  if (O == 0) return;
  dispatch_floating(
      dy.dtype, [&]<class T, class W = Wide<T>>() {
        W* weights = dw ? dw->grad.as<W>() : nullptr;
        W* bias = db ? db->grad.as<W>() : nullptr;
        with_width<T>(I, {weights, x.data}, [&](auto width) {
          with_beta(dw ? dw->beta : 0, [&](auto accumulate) {
            // No more warps than there are vectors for them.
            const int64_t warps = (I / width + warp_threads - 1) / warp_threads;
            const auto threads = static_cast<unsigned>(
                std::clamp<int64_t>(warps * warp_threads, warp_threads, block_threads));
            enqueue(Grid{small_blocks(O), threads},
                    small_backward_kernel<width.value, accumulate.value, T>, weights, bias,
                    db ? db->beta : 0, dy.as<T>(), y.data ? y.as<const T>() : nullptr, activation,
                    x.data ? x.as<const T>() : nullptr, N, O, I);
          });
        });
      });
}

}  // namespace accrue::cuda
