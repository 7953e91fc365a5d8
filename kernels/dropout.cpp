#include "kernels/dropout.h"

#include "core/ceil_div.h"
#include "kernels/detail/dropout_kernels.h"

namespace accrue {
namespace cpu {

constexpr int64_t tile = 64;  // elements of a row that draw their words together

// y = mask * x + beta * y; y may be x.
void dropout(GradTarget y, View x, View samples, Mask mask) {
  dispatch_floating(x.dtype, [&]<class T>() {
    const int64_t N = x.shape[0], E = x.shape.numel(1, x.shape.rank());
    const int64_t before = mask.before_row(), tiles = ceil_div(before + E, tile);
    with_beta(y.beta, [&](auto accumulate) {
      parallel_for(N * tiles, 2 * tile, [&](int64_t begin, int64_t end) {
        // A local copy, so that the compiler knows that writing y does not change it.
        const auto masked = mask.of_elements<Wide<T>>();
        uint32_t word[tile];
        for (int64_t i = begin; i < end; ++i) {
          const int64_t n = i / tiles, first = i % tiles * tile - before;
          mask.draw<tile / words_of_call>(word, samples.as<int32_t>()[n], first);
          const int64_t begin_e = std::max<int64_t>(first, 0),
                        size = std::min(first + tile, E) - begin_e;
          const uint32_t* own = word + (begin_e - first);
          const T* in = x.as<T>() + n * E + begin_e;
          T* out = y.grad.as<T>() + n * E + begin_e;
          for (int64_t j = 0; j < size; ++j)
            store(out[j], masked(widen(in[j]), own[j]), accumulate);
        }
      });
    });
  });
}

}  // namespace cpu

namespace cuda {
decltype(cpu::dropout) dropout;
}  // namespace cuda

Tensor dropout(Tensor x, double p, const DropoutKey& key) {
  check_same("dropout", {&x});
  check(p >= 0 && p < 1, "[dropout] p is {}, expected it in [0, 1)", p);
  check(x.shape().rank() > 0 && key.samples.defined() && key.samples.dtype() == DType::i32 &&
            key.samples.shape() == Shape{x.size(0)} && key.samples.device() == x.device(),
        "[dropout] x {} and samples {} {}: expected x [N, ...] and i32 samples [N] on {}",
        x.shape(), name(key.samples.dtype()), key.samples.shape(), name(x.device()));
  check(0 <= key.epoch && key.epoch >> 32 == 0, "[dropout] epoch is {}, expected it in [0, 2^32)",
        key.epoch);
  check(key.first >= 0, "[dropout] x begins with element {} of its rows: expected 0 or more",
        key.first);
  check((key.first + x.shape().numel(1, x.shape().rank())) / words_of_call >> 32 == 0,
        "[dropout] a row of x {} has more than 2^34 elements", x.shape());
  if (p == 0) return x;

  const Edge edge = x;
  const Mask mask(p, key);
  Tensor y = x.sole_owner() ? x.detach() : empty_result(x.shape(), x.dtype(), x.device());
  if (!result_is_unread())
    launch<cpu::dropout, cuda::dropout>(y.device(), GradTarget{y.view(), 0}, x.view(),
                                        key.samples.view(), mask);
  record("dropout", y, {edge}, [edge, mask, samples = key.samples.saved()](Tensor& dy) {
    if (auto dx = claim_grad_over(edge, dy))
      launch<cpu::dropout, cuda::dropout>(dy.device(), *dx, dy.view(), samples.view(), mask);
  });
  return y;
}

}  // namespace accrue
