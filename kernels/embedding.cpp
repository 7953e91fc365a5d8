#include "kernels/embedding.h"

#include "core/inside.h"
#include "kernels/backend.h"
#include "kernels/quantized_blocks.h"

namespace accrue {
namespace cpu {

void embedding(View y, View w, View index) {
  const int64_t N = y.shape[0], D = y.shape[1], V = w.shape[0];
  const int32_t* row = index.as<int32_t>();
  for (int64_t n = 0; n < N; ++n)
    check(0 <= row[n] && row[n] < V, "[embedding] index {} at position {} is outside [0, {})",
          row[n], n, V);
  if (w.dtype != y.dtype)
    return dispatch_blocks(w.dtype, [&]<class Block>() {
      dispatch_floating(y.dtype, [&]<class T>() {
        constexpr int64_t elements = elements_in<Block>;
        parallel_each(N, D, [&](int64_t n) {
          const auto* blocks = static_cast<const Block*>(w.data) + row[n] * (D / elements);
          for (int64_t b = 0; b < D / elements; ++b)
            widen(blocks[b], y.as<T>() + n * D + b * elements);
        });
      });
    });
  dispatch_floating(w.dtype, [&]<class T>() {
    parallel_each(N, D,
                  [&](int64_t n) { std::copy_n(w.as<T>() + row[n] * D, D, y.as<T>() + n * D); });
  });
}

// A thread owns a range of columns, so an index that occurs twice is added in order. dw has nothing
// of the rows of dy whose index is the padding.
void embedding_backward(GradTarget dw, View dy, View index, int64_t padding) {
  const int64_t N = dy.shape[0], D = dy.shape[1], V = dw.grad.shape[0];
  const int32_t* row = index.as<int32_t>();
  dispatch_floating(dy.dtype, [&]<class T>() {
    const T* in = dy.as<T>();
    auto* out = dw.grad.as<Wide<T>>();
    parallel_for(D, dw.beta == 0 ? N + V : N, [&](int64_t begin, int64_t end) {
      if (dw.beta == 0)
        for (int64_t v = 0; v < V; ++v)
          std::fill(out + v * D + begin, out + v * D + end, Wide<T>(0));
      for (int64_t n = 0; n < N; ++n) {
        if (row[n] == padding) continue;
        for (int64_t d = begin; d < end; ++d) out[row[n] * D + d] += in[n * D + d];
      }
    });
  });
}

}  // namespace cpu

// Only the rows that the indices name are touched, except where all of dw is written.
template <>
struct detail::WorkOf<cpu::embedding> {
  Work operator()(const View& y, const View&, const View& index) const {
    return {.bytes = 2 * bytes_of(y) + bytes_of(index)};
  }
};

template <>
struct detail::WorkOf<cpu::embedding_backward> {
  Work operator()(const GradTarget& dw, const View& dy, const View& index, int64_t) const {
    return {.bytes = (dw.beta == 0 ? bytes_of(dw) : 0) + 3 * bytes_of(dy) + bytes_of(index)};
  }
};

namespace cuda {
decltype(cpu::embedding) embedding;
decltype(cpu::embedding_backward) embedding_backward;
}  // namespace cuda

Tensor embedding(const Tensor& w, const Tensor& index, std::optional<DType> dtype,
                 std::optional<int64_t> padding) {
  check(w.defined() && w.shape().rank() == 2 && index.defined() && index.shape().rank() == 1 &&
            index.dtype() == DType::i32 && index.device() == w.device(),
        "[embedding] w {} and index {} {}: expected w [V, D] and i32 index [N] on {}", w.shape(),
        name(index.dtype()), index.shape(), name(w.device()));
  check(!padding || (0 <= *padding && *padding < w.size(0)),
        "[embedding] padding is {}: expected a row of w {}", padding.value_or(0), w.shape());
  const auto& variable = w.variable();
  const Tensor table = variable && variable->copy.defined() ? variable->copy : w.detach();
  Tensor y = Tensor::empty({index.size(0), w.size(1)}, dtype.value_or(table.dtype()), w.device());
  check_weight("embedding", y, table, w);
  launch<cpu::embedding, cuda::embedding>(y.device(), y.view(), table.view(), index.view());
  const Edge dw_edge = w;
  const int64_t skipped = padding.value_or(-1);
  record("embedding", y, {dw_edge}, [dw_edge, skipped, index = index.saved()](Tensor& dy) {
    if (auto dw = claim_grad(dw_edge))
      launch<cpu::embedding_backward, cuda::embedding_backward>(dy.device(), *dw, dy.view(),
                                                                index.view(), skipped);
  });
  return y;
}

}  // namespace accrue
