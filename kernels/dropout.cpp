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

// y[n, e] = keep(n) / (1 - p) * x[n, e] + beta * y[n, e]; y may be x.
void drop_samples(GradTarget y, View x, View samples, Mask mask) {
  dispatch_floating(x.dtype, [&]<class T>() {
    const int64_t N = x.shape[0], E = x.shape.numel(1, x.shape.rank());
    with_beta(y.beta, [&](auto accumulate) {
      parallel_each(N * ceil_div(E, tile), 2 * tile, [&](int64_t part) {
        const auto masked = mask.of_elements<Wide<T>>();
        const int64_t n = part / ceil_div(E, tile), first = part % ceil_div(E, tile) * tile;
        uint32_t word[words_of_call];
        mask.draw<1>(word, samples.as<int32_t>()[n], 0);
        const T* in = x.as<T>() + n * E;
        T* out = y.grad.as<T>() + n * E;
        for (int64_t e = first; e < std::min(first + tile, E); ++e)
          store(out[e], masked(widen(in[e]), word[0]), accumulate);
      });
    });
  });
}

}  // namespace cpu

namespace cuda {
decltype(cpu::dropout) dropout;
decltype(cpu::drop_samples) drop_samples;
}  // namespace cuda

namespace {

void check_key(std::string_view op, const Tensor& x, double p, const DropoutKey& key) {
  check_same(op, {&x});
  check(p >= 0 && p < 1, "[{}] p is {}, expected it in [0, 1)", op, p);
  const bool has_samples = x.shape().rank() > 0 && key.samples.defined() &&
                           key.samples.dtype() == DType::i32 && key.samples.shape().rank() == 1 &&
                           key.samples.device() == x.device();
  const int64_t N = has_samples ? key.samples.size(0) : 0;
  check(
      has_samples && (N == 0 ? x.size(0) == 0 : x.size(0) % N == 0),
      "[{}] x {} and samples {} {}: expected x [N, ...] and i32 samples [N] on {}, or x [N T, ...]",
      op, x.shape(), name(key.samples.dtype()), key.samples.shape(), name(x.device()));
  check(0 <= key.epoch && key.epoch >> 32 == 0, "[{}] epoch is {}, expected it in [0, 2^32)", op,
        key.epoch);
}

// x [N T, ...] as [N, T ...].
View by_sample(View x, int64_t N) {
  x.shape = {N, N == 0 ? 0 : x.numel() / N};
  return x;
}

using Kernel = void (*)(GradTarget y, View x, View samples, Mask mask);

template <Kernel cpu_kernel, Kernel cuda_kernel>
Tensor masked(std::string_view op, Tensor x, const Mask& mask, const Tensor& samples) {
  const Edge edge = x;
  const auto run = [mask](GradTarget y, View of, View by) {
    const int64_t N = by.shape[0];
    y.grad = by_sample(y.grad, N);
    launch<cpu_kernel, cuda_kernel>(of.device, y, by_sample(of, N), by, mask);
  };
  Tensor y = x.sole_owner() ? x.detach() : empty_result(x.shape(), x.dtype(), x.device());
  if (!result_is_unread()) run({y.view(), 0}, x.view(), samples.view());
  record(op, y, {edge}, [edge, run, samples = samples.saved()](Tensor& dy) {
    if (auto dx = claim_grad_over(edge, dy)) run(*dx, dy.view(), samples.view());
  });
  return y;
}

}  // namespace

Tensor dropout(Tensor x, double p, const DropoutKey& key) {
  check_key("dropout", x, p, key);
  check(key.first >= 0, "[dropout] x begins with element {} of its rows: expected 0 or more",
        key.first);
  const int64_t E = x.numel() / std::max<int64_t>(key.samples.size(0), 1);
  check((key.first + E) / words_of_call >> 32 == 0,
        "[dropout] a row of x {} has more than 2^34 elements", x.shape());
  if (p == 0) return x;
  return masked<cpu::dropout, cuda::dropout>("dropout", std::move(x), Mask(p, key), key.samples);
}

Tensor stochastic_depth(Tensor x, double p, const DropoutKey& key) {
  check_key("stochastic_depth", x, p, key);
  if (p == 0) return x;
  DropoutKey of_samples = key;
  of_samples.first = 0;
  return masked<cpu::drop_samples, cuda::drop_samples>("stochastic_depth", std::move(x),
                                                       Mask(p, of_samples), key.samples);
}

}  // namespace accrue
