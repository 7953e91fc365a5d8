#include "accumulate/ladder/step_reference.h"

#include <cstring>

#include "accumulate/ladder/ladders.h"
#include "kernels/step/step_outcome.h"

namespace accrue::ladder {
namespace {

struct AdamStep {
  Expected w, m, v;
};

// One step in double. m' is a sum of two terms that may cancel, so its error bound is relative to
// their absolute values: at most 6 roundings, of g, the factors, the products and the sum; the
// difference in lerp stays within 8. The terms of v' are positive, so its bound is relative to v'
// itself: at most 10 roundings. The quotient inherits half of that through the root, and adds the
// roundings of the root, its factor, eps, the step and the division.
AdamStep adam_step_of(double w, double m, double v, double g) {
  const auto& [beta1, beta2, eps, decay, kind] = adam_scalars;
  const double next_m = beta1 * m + (1 - beta1) * g;
  const double bound_m = 8 * rounding * (beta1 * std::abs(m) + (1 - beta1) * std::abs(g));
  const double next_v = beta2 * v + (1 - beta2) * g * g;
  const double step = lr / (1 - std::pow(beta1, steps_taken));
  const double d = std::sqrt(next_v / (1 - std::pow(beta2, steps_taken))) + eps;
  const double update = step * next_m / d;
  return {{w - update, rounding * (2 * std::abs(w) + 18 * std::abs(update)) + step * bound_m / d},
          {next_m, bound_m},
          {next_v, 10 * rounding * next_v}};
}

template <class Part>
double error_in(const Array& array, Part&& expected) {
  return worst_error(array.on_host().span<float>(), expected);
}

}  // namespace

Tensor make_outcome(double grad_scale, Device device) {
  const StepOutcome outcome{.steps = int64_t(steps_taken), .lr = lr, .grad_scale = grad_scale};
  std::vector<uint8_t> bytes(sizeof(outcome));
  std::memcpy(bytes.data(), &outcome, sizeof(outcome));
  return Tensor::from(bytes, {sizeof(outcome)}, device, Category::workspace);
}

Tensor make_progress(const Tensor& outcome) {
  const Tensor progress =
      Tensor::full({3}, steps_taken - 1, DType::f64, outcome.device(), Category::workspace);
  adam_begin(progress.view(), outcome.view(), adam_scalars);
  return progress;
}

double adam_error(const Arrays& a, double grad_scale) {
  const auto step = [&](size_t i) {
    const auto at = [i](const Array& array) { return double(array.initial.span<float>()[i]); };
    return adam_step_of(at(a.w), at(a.m), at(a.v), grad_scale * at(a.g));
  };
  return std::max({error_in(a.w, [&](size_t i) { return step(i).w; }),
                   error_in(a.m, [&](size_t i) { return step(i).m; }),
                   error_in(a.v, [&](size_t i) { return step(i).v; })});
}

double sgd_error(const Arrays& a) {
  const auto at = [](const Array& array, size_t i) {
    return double(array.initial.span<float>()[i]);
  };
  // At most four roundings: of the factor, the product, the sum, and g's scale.
  const auto momentum = [&](size_t i) -> Expected {
    const double kept = sgd_scalars.momentum * at(a.m, i), g = at(a.g, i);
    return {kept + g, 4 * rounding * (std::abs(kept) + std::abs(g))};
  };
  const auto weight = [&](size_t i) -> Expected {
    const Expected u = momentum(i);
    const double w = at(a.w, i), moved = lr * u.value;
    return {w - moved, rounding * (std::abs(w) + 4 * std::abs(moved)) + lr * u.bound};
  };
  return std::max(error_in(a.m, momentum), error_in(a.w, weight));
}

}  // namespace accrue::ladder
