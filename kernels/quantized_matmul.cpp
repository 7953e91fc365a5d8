#include "kernels/quantized_matmul.h"

#include "core/device.h"
#include "kernels/backend.h"
#include "kernels/cpu/gemm.h"
#include "kernels/pointwise.h"
#include "kernels/quantized_blocks.h"

namespace accrue {

Slab largest_slab(const View& w, Transpose w_op, DType dtype) {
  const int64_t of_cuda = (int64_t{32} << 20) / int64_t(size_of(dtype)), of_cpu = 256 << 10;
  const int64_t elements = plans_for_cuda(w.device) ? of_cuda : of_cpu, step = 16;
  const Shape shape = matrix_shape(w.shape);
  const int64_t R = shape[0], C = shape[1];
  const auto at_once = [=](int64_t all, int64_t others, int64_t least) {
    return std::min(all, std::max(least, elements / others / least * least));
  };
  if (w_op == Transpose::no && is_16_bit_dtype(dtype))
    return {0, 0, R, at_once(C, R, std::max(step, block_elements(w.dtype)))};
  return {0, 0, at_once(R, C, step), C};
}

int64_t widened_bytes(const View& w, DType dtype) {
  int64_t most = 0;
  for (const Transpose op : {Transpose::yes, Transpose::no}) {
    const Slab slab = largest_slab(w, op, dtype);
    most = std::max(most, slab.rows * slab.columns);
  }
  constexpr int64_t alignment = 256;
  return (most * int64_t(size_of(dtype)) + alignment - 1) / alignment * alignment;
}

namespace cpu {

void widen_slab(View out, View w, int64_t row, int64_t column) {
  dispatch_blocks(w.dtype, [&]<class Block>() {
    dispatch_floating(out.dtype, [&]<class T>() {
      constexpr int64_t elements = elements_in<Block>;
      const int64_t columns = out.shape[1], of_row = matrix_shape(w.shape)[1] / elements;
      const int64_t half = half_head(w.shape);
      T* const to = out.as<T>();
      parallel_each(out.shape[0], columns, [&](int64_t r) {
        const auto* from = static_cast<const Block*>(w.data) + stored_row(row + r, half) * of_row +
                           column / elements;
        for (int64_t b = 0; b < columns / elements; ++b)
          widen(from[b], to + r * columns + b * elements);
      });
    });
  });
}

void map(View y, View x, const detail::formula::AnyPointwise& formula);

void quantized_matmul(GradTarget c, View a, View w, Transpose w_op, View bias,
                      Activation activation, View scratch) {
  const bool is_transposed = w_op == Transpose::yes;
  // Several slabs of the same columns of c are terms of one sum.
  const bool is_cut = !is_transposed && largest_slab(w, w_op, a.dtype).rows < a.shape[1];
  dispatch_floating(a.dtype, [&]<class T>() {
    const auto run = [&]<class Out>(Out* out) {
      for_each_slab(w, w_op, a.dtype, [&](const Slab& slab) {
        const View widened{scratch.data, {slab.rows, slab.columns}, a.dtype, Device::cpu};
        widen_slab(widened, w, slab.row, slab.column);
        const SlabProduct part(slab, w_op, c.beta);
        gemm(out + part.c_column, a.as<const T>() + part.a_column, widened.as<const T>(),
             Gemm<T>{.M = a.shape[0],
                     .N = is_transposed ? slab.rows : slab.columns,
                     .K = is_transposed ? slab.columns : slab.rows,
                     .a_op = Transpose::no,
                     .b_op = w_op,
                     .beta = part.beta,
                     .bias = bias.data && part.a_column == 0 ? bias.as<const T>() + part.c_column
                                                             : nullptr,
                     .activation = is_cut ? Activation::none : activation,
                     .a_stride = a.shape[1],
                     .c_stride = c.grad.shape[1]});
      });
    };
    if (c.grad.dtype == a.dtype) run(c.grad.as<T>());
    else run(c.grad.as<Wide<T>>());
  });
  if (is_cut)
    with_formula(activation, [&]<class F>(F f) {
      if constexpr (std::is_constructible_v<detail::formula::AnyPointwise, F>)
        map(c.grad, c.grad, f);
    });
}

}  // namespace cpu
}  // namespace accrue
