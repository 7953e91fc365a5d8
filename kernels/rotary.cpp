#include "kernels/rotary.h"

#include <cmath>
#include <numbers>

#include "kernels/detail/rotary_kernels.h"
#include "kernels/detail/wide_runs.h"

namespace accrue {
namespace cpu {
namespace {

// Turns the pairs of one head. y may be x: no two pairs share an element.
template <class W, class Step, class Apart, bool accumulate>
void turn_head(W* y, const W* x, const Rotation<const W*>& by, int64_t count, Step step,
               Apart apart, std::bool_constant<accumulate> constant) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const Rotation<W> rotation{by.cos[i], by.sin[i]};
    const W a = x[i * step], b = x[i * step + apart];
    store(y[i * step], rotation.first(a, b), constant);
    store(y[i * step + apart], rotation.second(a, b), constant);
  }
}

// Calls body(step, apart). They are compile-time constants where the compiler needs them to
// vectorise.
template <class Body>
void with_places(const RotaryPairs& pairs, Body&& body) {
  using One = std::integral_constant<int64_t, 1>;
  using Two = std::integral_constant<int64_t, 2>;
  if (pairs.step == Two::value) body(Two{}, One{});
  else body(One{}, pairs.apart);
}

}  // namespace

// y = turned x + beta * y; y may be x.
void rotary(GradTarget y, View x, View positions, const RotaryPairs& pairs) {
  constexpr int64_t most = 2 * RotaryPairs::most;
  const int64_t tokens = positions.numel(), C = x.shape[2], size = 2 * pairs.count;
  dispatch_widened(x.dtype, [&]<class W>() {
    with_beta(y.beta, [&](auto accumulate) {
      with_places(pairs, [&](auto step, auto apart) {
        parallel_for(tokens, C, [&](int64_t begin, int64_t end) {
          W cos[RotaryPairs::most], sin[RotaryPairs::most];
          for (int64_t token = begin; token < end; ++token) {
            const int32_t position = positions.as<int32_t>()[token];
            for (int64_t i = 0; i < pairs.count; ++i) {
              const auto rotation = pairs.rotation<W>(position, i);
              cos[i] = rotation.cos;
              sin[i] = rotation.sin;
            }
            for (int64_t at = token * C; at < (token + 1) * C; at += size) {
              const WideInput<W, most> head(x, at, size);
              const WideOutput<W, most> turned(y.grad, y.beta, at, size);
              turn_head<W>(turned.data(), head.data(), {cos, sin}, pairs.count, step, apart,
                           accumulate);
            }
          }
        });
      });
    });
  });
}

}  // namespace cpu

namespace cuda {
decltype(cpu::rotary) rotary;
}  // namespace cuda

std::vector<double> detail::rotary_frequencies(int64_t size, double base) {
  std::vector<double> frequencies;
  for (int64_t i = 0; i < size / 2; ++i)
    frequencies.push_back(std::pow(base, -2 * double(i) / double(size)));
  return frequencies;
}

std::vector<double> detail::scale_linearly(std::vector<double> frequencies, double factor) {
  check(factor > 0, "[rotary] linear scaling by {}, expected more than 0", factor);
  for (double& f : frequencies) f /= factor;
  return frequencies;
}

std::vector<double> detail::scale_as_llama3(std::vector<double> frequencies,
                                            const Llama3Scaling& scaling) {
  const auto [factor, low, high, context] = scaling;
  check(factor > 0 && low > 0 && high > low && context > 0,
        "[rotary] Llama 3's scaling with factor {}, low_freq_factor {}, high_freq_factor {} and "
        "original_max_position_embeddings {}: expected all above 0, and the second below the third",
        factor, low, high, context);
  for (double& f : frequencies) {
    const double turns = context * f / (2 * std::numbers::pi);
    const double kept = std::clamp((turns - low) / (high - low), 0.0, 1.0);
    f = (1 - kept) * f / factor + kept * f;
  }
  return frequencies;
}

Tensor detail::rotary(Tensor x, const Rotary& rotary, const Tensor& positions) {
  check_same("rotary", {&x});
  const auto count = std::ssize(rotary.frequencies);
  check(rotary.size > 0 && rotary.size == 2 * count && count <= RotaryPairs::most,
        "[rotary] heads of {} with {} frequencies: expected an even size of at most {} with half "
        "as many",
        rotary.size, count, 2 * RotaryPairs::most);
  check(x.shape().rank() == 3 && x.size(2) % rotary.size == 0 && positions.defined() &&
            positions.dtype() == DType::i32 && positions.device() == x.device() &&
            positions.shape() == Shape{x.size(0), x.size(1)},
        "[rotary] x {} and positions {} {}: expected x [N, T, heads * {}] and i32 positions [N, T] "
        "on {}",
        x.shape(), positions.defined() ? name(positions.dtype()) : "undefined", positions.shape(),
        rotary.size, name(x.device()));
  const Edge edge = x;
  Tensor y = x.sole_owner() ? x.detach() : Tensor::empty(x.shape(), x.dtype(), x.device());
  launch<cpu::rotary, cuda::rotary>(y.device(), GradTarget{y.view(), 0}, x.view(), positions.view(),
                                    RotaryPairs(rotary, Turn::forward));
  record("rotary", y, {edge}, [=, back = RotaryPairs(rotary, Turn::back)](Tensor& dy) {
    if (auto dx = claim_grad_over(edge, dy))
      launch<cpu::rotary, cuda::rotary>(dy.device(), *dx, dy.view(), positions.view(), back);
  });
  return y;
}

}  // namespace accrue
