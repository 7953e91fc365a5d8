#include "kernels/quantized_matmul.h"

#include <algorithm>

#include "core/device.h"
#include "kernels/backend.h"
#include "kernels/cpu/gemm.h"
#include "kernels/quantized_blocks.h"

namespace accrue {
namespace {

int64_t slab_rows(const View& w, DType dtype, Device device) {
  constexpr int64_t elements = 1 << 18, step = 16;
  const int64_t rows = w.shape[0];
  if (is_16_bit_dtype(dtype) || plans_for_cuda(device)) return rows;
  return std::min(rows, std::max(step, elements / w.shape[1] / step * step));
}

}  // namespace

int64_t widened_bytes(const View& w, DType dtype, Device device) {
  return slab_rows(w, dtype, device) * w.shape[1] * int64_t(size_of(dtype));
}

namespace cpu {

void widen_rows(View out, View w, int64_t begin) {
  const int64_t columns = w.shape[1];
  dispatch_blocks(w.dtype, [&]<class Block>() {
    dispatch_floating(out.dtype, [&]<class T>() {
      constexpr int64_t elements = elements_in<Block>;
      const int64_t blocks = columns / elements;
      const auto* from = static_cast<const Block*>(w.data) + begin * blocks;
      T* to = out.as<T>();
      parallel_each(out.shape[0], columns, [&](int64_t r) {
        for (int64_t b = 0; b < blocks; ++b)
          widen(from[r * blocks + b], to + r * columns + b * elements);
      });
    });
  });
}

void quantized_matmul(GradTarget c, View a, View w, Transpose w_op, View bias,
                      Activation activation, View scratch) {
  const int64_t R = w.shape[0], C = w.shape[1], at_once = slab_rows(w, a.dtype, Device::cpu);
  const bool is_transposed = w_op == Transpose::yes;
  dispatch_floating(a.dtype, [&]<class T>() {
    const auto run = [&]<class Out>(Out* out) {
      for (int64_t begin = 0; begin < R; begin += at_once) {
        const int64_t rows = std::min(at_once, R - begin);
        const View slab{scratch.data, {rows, C}, a.dtype, Device::cpu};
        widen_rows(slab, w, begin);
        Gemm<T> product{.M = a.shape[0],
                        .N = is_transposed ? rows : C,
                        .K = is_transposed ? C : rows,
                        .a_op = Transpose::no,
                        .b_op = w_op,
                        .beta = is_transposed || begin == 0 ? c.beta : 1,
                        .bias = bias.data ? bias.as<const T>() + begin : nullptr,
                        .activation = activation};
        (is_transposed ? product.c_stride : product.a_stride) = R;
        gemm(is_transposed ? out + begin : out,
             is_transposed ? a.as<const T>() : a.as<const T>() + begin, slab.as<const T>(),
             product);
      }
    };
    if (c.grad.dtype == a.dtype) run(c.grad.as<T>());
    else run(c.grad.as<Wide<T>>());
  });
}

}  // namespace cpu
}  // namespace accrue
