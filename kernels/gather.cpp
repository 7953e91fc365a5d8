#include "kernels/gather.h"

#include <algorithm>
#include <type_traits>

#include "kernels/detail/gather_kernels.h"
#include "kernels/rearrange.h"

namespace accrue {
namespace cpu {
namespace {

void check_range(const View& index, const Gathering& shape) {
  const int32_t* const v = index.as<int32_t>();
  const int64_t n = index.numel();
  int32_t lowest = 0, highest = 0;
  for (int64_t k = 0; k < n; ++k)
    lowest = std::min(lowest, v[k]), highest = std::max(highest, v[k]);
  if (n == 0 || (lowest >= 0 && highest < shape.V)) return;
  const auto* const bad = std::find_if(v, v + n, [&](int32_t i) { return i < 0 || i >= shape.V; });
  fail("[{}] index {} at position {} is outside [0, {})",
       shape.is_shared ? "index_select" : "gather", *bad, bad - v, shape.V);
}

// Calls body(o, i, n) for runs of n lanes (o, i), (o, i + 1), ... that cover all.
template <class Body>
void for_each_run_of_lanes(const Gathering& shape, int64_t work, const Body& body) {
  parallel_for(shape.lanes(), work, [&](int64_t begin, int64_t end) {
    while (begin < end) {
      const int64_t o = begin / shape.I, i = begin % shape.I;
      const int64_t n = std::min(shape.I - i, end - begin);
      body(o, i, n);
      begin += n;
    }
  });
}

}  // namespace

void gather_elements(View y, View x, View index, const Gathering& shape) {
  check_range(index, shape);
  const int32_t* const v = index.as<int32_t>();
  const int64_t I = shape.I;
  dispatch_floating(x.dtype, [&]<class T>() {
    const T* const in = x.as<const T>();
    T* const out = y.as<T>();
    parallel_each(shape.O * shape.K, I, [&](int64_t row) {
      const int64_t o = row / shape.K, k = row % shape.K;
      const int32_t* const from = v + shape.index_at(o, k, 0);
      const T* const lanes = in + o * shape.V * I;
      if (shape.is_shared) std::copy_n(lanes + *from * I, I, out + row * I);
      else
        for (int64_t i = 0; i < I; ++i) out[row * I + i] = lanes[from[i] * I + i];
    });
  });
}

// A thread owns lanes: what one index names several times is added in order.
void gather_elements_backward(GradTarget dx, View dy, View index, View sums,
                              const Gathering& shape) {
  const int32_t* const v = index.as<int32_t>();
  const int64_t I = shape.I, V = shape.V, K = shape.K;
  dispatch_floating(dy.dtype, [&]<class T>() {
    constexpr bool is_narrow = is_16_bit<T>;
    const T* const in = dy.as<const T>();
    T* const out = dx.grad.as<T>();
    Wide<T>* const wide = (is_narrow ? sums : dx.grad).template as<Wide<T>>();
    const bool writes_zeros = is_narrow || dx.beta == 0;
    for_each_run_of_lanes(shape, V + K, [&](int64_t o, int64_t first, int64_t n) {
      Wide<T>* const lanes = wide + o * V * I + first;
      if (writes_zeros)
        for (int64_t u = 0; u < V; ++u) std::fill_n(lanes + u * I, n, Wide<T>(0));
      for (int64_t k = 0; k < K; ++k) {
        const int32_t* const at = v + shape.index_at(o, k, first);
        const T* const d = in + (o * K + k) * I + first;
        if (shape.is_shared)
          for (int64_t i = 0; i < n; ++i) lanes[*at * I + i] += d[i];
        else
          for (int64_t i = 0; i < n; ++i) lanes[at[i] * I + i] += d[i];
      }
      if constexpr (is_narrow)
        with_beta(dx.beta, [&](auto accumulate) {
          for (int64_t u = 0; u < V; ++u)
            for (int64_t i = 0; i < n; ++i)
              store(out[(o * V + u) * I + first + i], lanes[u * I + i], accumulate);
        });
    });
  });
}

}  // namespace cpu

// One element of x for each of y.
template <>
struct detail::WorkOf<cpu::gather_elements> {
  Work operator()(const View& y, const View&, const View& index, const Gathering&) const {
    return {.bytes = 2 * bytes_of(y) + bytes_of(index)};
  }
};

template <>
struct detail::WorkOf<cpu::gather_elements_backward> {
  Work operator()(const GradTarget& dx, const View& dy, const View& index, const View&,
                  const Gathering&) const {
    return {.bytes = (dx.beta == 0 ? bytes_of(dx) : 0) + 3 * bytes_of(dy) + bytes_of(index)};
  }
};

namespace {

// Throws Error unless the index is one for x.
void check_index(std::string_view op, const Tensor& x, const Tensor& index) {
  check_same(op, {&x});
  check(index.defined() && index.dtype() == DType::i32 && index.device() == x.device(),
        "[{}] x {} and index {} {}: expected an i32 index on {}", op, x.shape(),
        name(index.dtype()), index.shape(), name(x.device()));
}

Tensor gathered(std::string_view op, const Tensor& x, const Tensor& index, const Shape& shape,
                const Gathering& how) {
  Tensor y = Tensor::empty(shape, x.dtype(), x.device());
  if (y.numel() > 0)
    launch<cpu::gather_elements, cuda::gather_elements>(y.device(), y.view(), x.view(),
                                                        index.view(), how);
  const Edge edge = x;
  record(op, y, {edge}, [edge, how, index = index.saved()](Tensor& dy) {
    const auto dx = claim_grad(edge);
    if (!dx || dx->grad.numel() == 0) return;
    Tensor sums;
    if (is_16_bit_dtype(dy.dtype()) && !plans_for_cuda(dy.device()))
      sums = Tensor::empty(dx->grad.shape, DType::f32, dy.device(), Category::workspace);
    launch<cpu::gather_elements_backward, cuda::gather_elements_backward>(
        dy.device(), *dx, dy.view(), index.view(), sums.defined() ? sums.view() : View(), how);
  });
  return y;
}

}  // namespace

Tensor index_select(const Tensor& x, int dim, const Tensor& index) {
  check_index("index_select", x, index);
  check(index.shape().rank() == 1, "[index_select] index {}: expected i32 [K]", index.shape());
  const int d = dimension_of("index_select", x, dim);
  const int64_t K = index.size(0);
  return gathered(
      "index_select", x, index, x.shape().with(d, K),
      {x.shape().numel(0, d), x.size(d), K, x.shape().numel(d + 1, x.shape().rank()), true});
}

Tensor gather(const Tensor& x, int dim, const Tensor& index) {
  check_index("gather", x, index);
  const int d = dimension_of("gather", x, dim), rank = x.shape().rank();
  bool fits = index.shape().rank() == rank;
  for (int e = 0; fits && e < rank; ++e) fits = e == d || index.size(e) <= x.size(e);
  check(fits,
        "[gather] x {} and index {} in dimension {}: expected an index of x's rank, and no "
        "larger in other dimensions",
        x.shape(), index.shape(), dim);
  // The part of x whose lanes the index has.
  Tensor part = x;
  for (int e = 0; e < rank; ++e)
    if (e != d) part = slice(part, e, 0, index.size(e));
  return gathered(
      "gather", part, index, index.shape(),
      {part.shape().numel(0, d), x.size(d), index.size(d), part.shape().numel(d + 1, rank), false});
}

}  // namespace accrue
