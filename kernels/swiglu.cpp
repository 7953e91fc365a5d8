#include "kernels/swiglu.h"

#include "core/inside.h"
#include "kernels/backend.h"
#include "kernels/pointwise.h"

namespace accrue {
namespace cpu {

void swiglu(View y, View gate, View up) {
  dispatch_floating(y.dtype, [&]<class T>() {
    T* out = y.as<T>();
    const T *g = gate.as<T>(), *u = up.as<T>();
    parallel_each(y.numel(), 1,
                  [&](int64_t i) { out[i] = T(formula::Silu{}(widen(g[i])) * widen(u[i])); });
  });
}

namespace {

template <class T>
void store_each(const std::optional<GradTarget>& target, int64_t first, const Wide<T>* values,
                int64_t n) {
  if (!target) return;
  T* out = target->grad.as<T>() + first;
  with_beta(target->beta, [&](auto accumulate) {
    for (int64_t i = 0; i < n; ++i) store(out[i], values[i], accumulate);
  });
}

}  // namespace

// dgate may be gate, and dup may be up: both are computed for a tile before either is stored.
void swiglu_backward(std::optional<GradTarget> dgate, std::optional<GradTarget> dup, View dy,
                     View gate, View up) {
  constexpr int64_t tile = 256;
  dispatch_floating(
      dy.dtype, [&]<class T, class W = Wide<T>>() {
        const T *d = dy.as<T>(), *g = gate.as<T>(), *u = up.as<T>();
        parallel_for(dy.numel(), 1, [&](int64_t begin, int64_t end) {
          W of_gate[tile], of_up[tile];
          for (int64_t first = begin; first < end; first += tile) {
            const int64_t n = std::min(tile, end - first);
            for (int64_t i = 0; i < n; ++i) {
              const W dz = d[first + i], x = g[first + i];
              of_gate[i] = dz * u[first + i] * formula::Silu{}.slope_at(x);
              of_up[i] = dz * formula::Silu{}(x);
            }
            store_each<T>(dgate, first, of_gate, n);
            store_each<T>(dup, first, of_up, n);
          }
        });
      });
}

}  // namespace cpu

namespace cuda {
decltype(cpu::swiglu) swiglu;
decltype(cpu::swiglu_backward) swiglu_backward;
}  // namespace cuda

Tensor swiglu(const Tensor& gate, const Tensor& up) {
  check_same("swiglu", {&gate, &up});
  check(gate.shape() == up.shape(), "[swiglu] gate {} and up {}: expected one shape", gate.shape(),
        up.shape());
  Tensor y = Tensor::empty(gate.shape(), gate.dtype(), gate.device());
  launch<cpu::swiglu, cuda::swiglu>(y.device(), y.view(), gate.view(), up.view());

  const Edge dgate_edge = gate, dup_edge = up;
  record("swiglu", y, {dgate_edge, dup_edge},
         [=, gate = gate.saved(), up = up.saved()](Tensor& dy) {
           const auto [dgate, dup] = claim_grads_over_values(dgate_edge, gate, dup_edge, up);
           launch<cpu::swiglu_backward, cuda::swiglu_backward>(dy.device(), dgate, dup, dy.view(),
                                                               gate.view(), up.view());
         });
  return y;
}

}  // namespace accrue
