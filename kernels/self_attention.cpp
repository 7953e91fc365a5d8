#include "kernels/self_attention.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "kernels/backend.h"
#include "kernels/cpu/bump_allocator.h"
#include "kernels/cpu/gemm.h"
#include "kernels/detail/reduce.h"
#include "kernels/detail/self_attention_kernels.h"
#include "kernels/detail/vector_exp.h"

namespace accrue {
namespace cpu {
namespace {

// The number of rows of a [P, P] matrix that are computed at once. They fit the second-level cache,
// but are at least 16, which makes the products fast.
int64_t rows_of_block(int64_t P) {
  constexpr int64_t cache_elements = 1 << 17, least = 16;
  return std::min(P, std::max(least, cache_elements / P));
}

// The rows of a block are queries: scores[i, j].
template <class T, class W = Wide<T>>
struct ForwardScratch {
  W *scores, *q_rows, *y_rows, *inverse_sums, *k, *v;
  size_t bytes;

  ForwardScratch(const AttentionSizes& s, void* base) {
    BumpAllocator allocator(base);
    const int64_t R = rows_of_block(s.P), widened = is_16_bit<T> ? s.P : 0;
    scores = allocator.take<W>(R * s.P);
    q_rows = allocator.take<W>(R * s.D);
    y_rows = allocator.take<W>(R * s.C);
    inverse_sums = allocator.take<W>(R);
    k = allocator.take<W>(s.D * widened);
    v = allocator.take<W>(s.C * widened);
    bytes = allocator.used();
  }
};

// The rows of a block are keys: a[j, i] and ds[j, i]. So dk and dv are complete at the end of a
// block. All blocks add to dq, which is small beside dv.
template <class T, class W = Wide<T>>
struct BackwardScratch {
  W *a, *ds, *k_rows, *v_rows, *sums, *dq, *t, *q, *dy;
  size_t bytes;

  BackwardScratch(const AttentionSizes& s, void* base) {
    BumpAllocator allocator(base);
    const int64_t R = rows_of_block(s.P), widened = is_16_bit<T> ? s.P : 0;
    a = allocator.take<W>(R * s.P);
    ds = allocator.take<W>(R * s.P);
    k_rows = allocator.take<W>(R * s.D);
    v_rows = allocator.take<W>(R * s.C);
    sums = allocator.take<W>(R * std::max(s.C, s.D));
    dq = allocator.take<W>(s.D * s.P);
    t = allocator.take<W>(s.P);
    q = allocator.take<W>(s.D * widened);
    dy = allocator.take<W>(s.C * widened);
    bytes = allocator.used();
  }
};

// Returns x itself, or a copy in the type of the sums.
template <class T, class W = Wide<T>>
const W* widened(W* copy, const T* x, int64_t n) {
  if constexpr (std::is_same_v<T, W>) return x;
  else parallel_each(n, 1, [&](int64_t i) { copy[i] = x[i]; });
  return copy;
}

// Copies the first `columns` of x [rows, stride], without gaps.
template <class W, class T>
void take_columns(W* out, const T* x, int64_t rows, int64_t columns, int64_t stride) {
  parallel_each(rows, columns, [&](int64_t r) {
    for (int64_t c = 0; c < columns; ++c) out[r * columns + c] = x[r * stride + c];
  });
}

// The inverse of take_columns(), with out = x + beta * out.
template <class T, class W>
void store_columns(T* out, float beta, const W* x, int64_t rows, int64_t columns, int64_t stride) {
  with_beta(beta, [&](auto accumulate) {
    parallel_each(rows, columns, [&](int64_t r) {
      for (int64_t c = 0; c < columns; ++c)
        store(out[r * stride + c], x[r * columns + c], accumulate);
    });
  });
}

// Replaces a row of products x by exp(scale * (x - largest x)). Returns L, and 1 / the row's new
// sum.
template <class W>
std::pair<W, W> exponentiate(W* row, int64_t P, W scale) {
  W largest = row[0];
#pragma omp simd reduction(max : largest)
  for (int64_t j = 0; j < P; ++j) largest = std::max(largest, row[j]);
  const double sum =
      sum_of<W>(P, [=](int64_t j) { return row[j] = vector_exp(scale * (row[j] - largest)); });
  return {static_cast<W>(double(scale * largest) + std::log(sum)), static_cast<W>(1 / sum)};
}

// t[i] = sum_c dy[c, i] * y[c, i].
template <class T, class W = Wide<T>>
void sum_over_channels(W* t, const T* dy, const T* y, int64_t C, int64_t P) {
  parallel_for(P, C, [&](int64_t begin, int64_t end) {
    std::fill(t + begin, t + end, W(0));
    for (int64_t c = 0; c < C; ++c)
      for (int64_t i = begin; i < end; ++i) t[i] += dy[c * P + i] * y[c * P + i];
  });
}

}  // namespace

void self_attention(View y, View L, AttentionInputs in, View scratch) {
  dispatch_floating(
      y.dtype, [&]<class T, class W = Wide<T>>() {
        const T *q = in.q.as<const T>(), *k = in.k.as<const T>(), *v = in.v.as<const T>();
        const AttentionSizes s(in);
        const auto [N, D, C, P] = s;
        const ForwardScratch<T> x(s, scratch.data);
        const W scale = static_cast<W>(s.scale());
        for (int64_t n = 0; n < N; ++n) {
          const W* keys = widened(x.k, k + n * D * P, D * P);
          const W* values = widened(x.v, v + n * C * P, C * P);
          const int64_t R = rows_of_block(P);
          for (int64_t i = 0; i < P; i += R) {
            const int64_t rows = std::min(R, P - i);
            take_columns(x.q_rows, q + n * D * P + i, D, rows, P);
            gemm(x.scores, x.q_rows, keys, Gemm<W>{rows, P, D, Transpose::yes, Transpose::no, 0});
            parallel_each(rows, P, [&](int64_t r) {
              std::tie(L.as<W>()[n * P + i + r], x.inverse_sums[r]) =
                  exponentiate(x.scores + r * P, P, scale);
            });
            gemm(x.y_rows, values, x.scores, Gemm<W>{C, rows, P, Transpose::no, Transpose::yes, 0});
            T* out = y.as<T>() + n * C * P + i;
            parallel_each(C, rows, [&](int64_t c) {
              for (int64_t r = 0; r < rows; ++r)
                out[c * P + r] = T(x.y_rows[c * rows + r] * x.inverse_sums[r]);
            });
          }
        }
      });
}

// If the targets are one buffer, dv is stored before dk is added, and dk before dq.
void self_attention_backward(AttentionTargets targets, View dy, View y, View L, AttentionInputs in,
                             View scratch) {
  dispatch_floating(
      y.dtype, [&]<class T, class W = Wide<T>>() {
        const auto& [dq, dk, dv] = targets;
        const T *q = in.q.as<const T>(), *k = in.k.as<const T>(), *v = in.v.as<const T>();
        const AttentionSizes s(in);
        const auto [N, D, C, P] = s;
        const BackwardScratch<T> x(s, scratch.data);
        const W scale = static_cast<W>(s.scale());
        const int64_t R = rows_of_block(P);
        for (int64_t n = 0; n < N; ++n) {
          const T *dy_n = dy.as<const T>() + n * C * P, *y_n = y.as<const T>() + n * C * P;
          const W* L_n = L.as<const W>() + n * P;
          sum_over_channels(x.t, dy_n, y_n, C, P);
          const W* queries = widened(x.q, q + n * D * P, D * P);
          const W* dys = widened(x.dy, dy_n, C * P);
          for (int64_t j = 0; j < P; j += R) {
            const int64_t rows = std::min(R, P - j);
            take_columns(x.k_rows, k + n * D * P + j, D, rows, P);
            gemm(x.a, x.k_rows, queries, Gemm<W>{rows, P, D, Transpose::yes, Transpose::no, 0});
            parallel_each(rows, P, [&](int64_t r) {
              for (int64_t i = 0; i < P; ++i)
                x.a[r * P + i] = vector_exp(scale * x.a[r * P + i] - L_n[i]);
            });
            if (dv) {
              gemm(x.sums, dys, x.a, Gemm<W>{C, rows, P, Transpose::no, Transpose::yes, 0});
              store_columns(dv->grad.as<T>() + n * C * P + j, dv->beta, x.sums, C, rows, P);
            }
            if (!dk && !dq) continue;
            take_columns(x.v_rows, v + n * C * P + j, C, rows, P);
            gemm(x.ds, x.v_rows, dys, Gemm<W>{rows, P, C, Transpose::yes, Transpose::no, 0});
            parallel_each(rows, P, [&](int64_t r) {
              for (int64_t i = 0; i < P; ++i)
                x.ds[r * P + i] = score_gradient(x.a[r * P + i], x.ds[r * P + i], x.t[i], scale);
            });
            if (dk) {
              gemm(x.sums, queries, x.ds, Gemm<W>{D, rows, P, Transpose::no, Transpose::yes, 0});
              store_columns(dk->grad.as<T>() + n * D * P + j, dk->beta, x.sums, D, rows, P);
            }
            if (dq)
              gemm(x.dq, x.k_rows, x.ds,
                   Gemm<W>{D, P, rows, Transpose::no, Transpose::no, j == 0 ? 0.0f : 1.0f});
          }
          if (dq) store_columns(dq->grad.as<T>() + n * D * P, dq->beta, x.dq, D, P, P);
        }
      });
}

}  // namespace cpu

// Two products in the forward. Backward has five, including the two of the forward again.
template <>
struct detail::WorkOf<cpu::self_attention> {
  Work operator()(const View& y, const View& L, const AttentionInputs& in, const View&) const {
    const AttentionSizes s(in);
    return work_of(2 * s.pairs() * double(s.C + s.D), y, L, in.q, in.k, in.v);
  }
};

template <>
struct detail::WorkOf<cpu::self_attention_backward> {
  Work operator()(const AttentionTargets& targets, const View& dy, const View& y, const View& L,
                  const AttentionInputs& in, const View&) const {
    const auto& [dq, dk, dv] = targets;
    const AttentionSizes s(in);
    const int64_t terms =
        s.D + (dv ? s.C : 0) + (dk || dq ? s.C : 0) + (dk ? s.D : 0) + (dq ? s.D : 0);
    return work_of(2 * s.pairs() * double(terms), dv, dk, dq, dy, y, L, in.q, in.k, in.v);
  }
};

namespace cuda {
decltype(cpu::self_attention) self_attention;
decltype(cpu::self_attention_backward) self_attention_backward;
}  // namespace cuda

namespace {

enum class Stage { forward, backward };

Tensor attention_scratch(Stage stage, const AttentionSizes& s, DType dtype, Device device) {
  const size_t bytes = dispatch_floating(dtype, [&]<class T>() {
    const bool forward = stage == Stage::forward;
    if (plans_for_cuda(device))
      return forward ? size_t{0} : static_cast<size_t>(s.N * s.P) * sizeof(Wide<T>);
    return forward ? cpu::ForwardScratch<T>(s, nullptr).bytes
                   : cpu::BackwardScratch<T>(s, nullptr).bytes;
  });
  return Tensor::empty({static_cast<int64_t>(bytes)}, DType::u8, device, Category::workspace);
}

}  // namespace

Tensor self_attention(const Tensor& q, const Tensor& k, const Tensor& v) {
  check_same("self_attention", {&q, &k, &v});
  const auto positions = [](const Tensor& x) { return x.shape().sizes().subspan(2); };
  check(q.shape().rank() >= 3 && v.shape().rank() == q.shape().rank() && q.shape() == k.shape() &&
            q.size(0) == v.size(0) && std::ranges::equal(positions(q), positions(v)) &&
            q.numel() > 0 && v.numel() > 0,
        "[self_attention] q {}, k {} and v {}: expected q and k [N, D, H, W] and v [N, C, H, W], "
        "none empty",
        q.shape(), k.shape(), v.shape());
  const AttentionSizes sizes({q.view(), k.view(), v.view()});
  const Device device = q.device();
  Tensor y = Tensor::empty(v.shape(), v.dtype(), device);
  const Tensor L = Tensor::empty({sizes.N, sizes.P}, wide(q.dtype()), device);
  launch<cpu::self_attention, cuda::self_attention>(
      device, y.view(), L.view(), AttentionInputs{q.view(), k.view(), v.view()},
      attention_scratch(Stage::forward, sizes, q.dtype(), device).view());

  const Edge dq_edge = q, dk_edge = k, dv_edge = v;
  record("self_attention", y, {dq_edge, dk_edge, dv_edge},
         [=, q = q.saved(), k = k.saved(), v = v.saved(), y = y.saved()](Tensor& dy) {
           const auto [dv, dk, dq] = claim_grads(dv_edge, dk_edge, dq_edge);
           launch<cpu::self_attention_backward, cuda::self_attention_backward>(
               device, AttentionTargets{dq, dk, dv}, dy.view(), y.view(), L.view(),
               AttentionInputs{q.view(), k.view(), v.view()},
               attention_scratch(Stage::backward, sizes, q.dtype(), device).view());
         });
  return y;
}

}  // namespace accrue
