#include <numeric>

#include "accumulate/accumulate.h"
#include "accumulate/ladder/ladders.h"
#include "accumulate/ladder/step_reference.h"
#include "accumulate/ladder/tensor_ops.h"
#include "accumulate/squared_norm.h"

namespace accrue::ladder {
namespace {

// A function that runs Adam on the views w, m, v and g, of one parameter or of all.
auto adam_by(double grad_scale, Device device) {
  const Tensor outcome = make_outcome(grad_scale, device);
  return [outcome, progress = make_progress(outcome)](Weights w, View m, View v, View g) {
    adam_step(w, m, v, g, progress.view(), outcome.view(), adam_scalars);
  };
}

// Adam as PyTorch computes it without fusion: seven operations, 72 bytes for each parameter.
void adam_by_operations(View w, View m, View v, View g, View t) {
  const auto& [beta1, beta2, eps, decay, kind] = adam_scalars;
  const auto narrow = [](double x) { return static_cast<float>(x); };
  apply(m, Lerp{narrow(1 - beta1)}, m, g);
  apply(v, Scale{narrow(beta2)}, v);
  apply(v, AddSquare{narrow(1 - beta2)}, v, g);
  apply(t, Root{}, v);
  apply(t, Scale{narrow(1 / std::sqrt(1 - std::pow(beta2, steps_taken)))}, t);
  apply(t, AddConstant{narrow(eps)}, t);
  apply(w, SubtractQuotient{narrow(lr / (1 - std::pow(beta1, steps_taken)))}, w, m, t);
}

// Momentum in the same way: three operations, 32 bytes for each parameter.
void sgd_by_operations(View w, View u, View g) {
  apply(u, Scale{static_cast<float>(sgd_scalars.momentum)}, u);
  accumulate(u, g, 1);
  accumulate(w, u, -lr);
}

// On the cpu, each partial sum is made of 64 running sums in float32; on cuda it is a sum in
// double.
double norm_error(const Arrays& a, const Tensor& partials) {
  const Tensor parts = partials.to(Device::cpu), found = a.found.to(Device::cpu);
  const auto sums = parts.span<double>();
  const auto g = a.g.initial.span<float>();
  const double expected =
      std::transform_reduce(g.begin(), g.end(), 0.0, std::plus(), [](double x) { return x * x; });
  const double terms = double(a.size()) / double(norm_partials) / 64;
  if (found.item() != 0) return std::numeric_limits<double>::infinity();
  return error_of(std::accumulate(sums.begin(), sums.end(), 0.0),
                  {expected, (terms + 4) * rounding * expected});
}

}  // namespace

std::vector<Rung> scaling_ladder(const Arrays& a) {
  const int64_t P = a.size();
  const Tensor partials =
      Tensor::full({norm_partials}, 0, DType::f64, a.device, Category::workspace);
  const auto adam_unscaled = adam_by(1, a.device), adam_scaled = adam_by(1 / loss_scale, a.device);
  const auto error = [&a] { return adam_error(a, 1 / loss_scale); };
  const auto norm = [&a, partials] { return norm_error(a, partials); };
  return {{"loss scale", "unscale, then Adam", 2, 36 * P,
           [=, &a] {
             apply(a.t.flat(), Scale{static_cast<float>(1 / loss_scale)}, a.g.flat());
             adam_unscaled({a.w.flat()}, a.m.flat(), a.v.flat(), a.t.flat());
           },
           error, ""},
          {"loss scale", "in Adam's scalar", 1, 28 * P,
           [=, &a] { adam_scaled({a.w.flat()}, a.m.flat(), a.v.flat(), a.g.flat()); }, error, ""},
          {"norm", "finite?, then squares", 2, 8 * P,
           [=, &a] {
             find_nonfinite(a.found.view(), a.g.flat());
             squared_norm({partials.view(), 0}, a.g.flat());
           },
           norm, ""},
          {"norm", "both from one read", 1, 4 * P,
           [=, &a] {
             squared_norm({partials.view(), 0}, a.g.flat());
           },
           norm, ""}};
}

std::vector<Rung> optimizer_ladder(const Arrays& a) {
  const int64_t n = a.count(), P = a.size(), tensors = a.tensors();
  const auto adam = adam_by(1, a.device);
  const Tensor copy = Tensor::full({P}, 0, DType::bf16, a.device, Category::workspace);
  const auto adam_right = [&a] { return adam_error(a, 1); };
  const auto sgd_right = [&a] { return sgd_error(a); };
  return {{"adam", "seven operations", 7 * tensors, 72 * n,
           for_each_parameter(a,
                              [&a](size_t p) {
                                adam_by_operations(a.w.parameters[p], a.m.parameters[p],
                                                   a.v.parameters[p], a.g.parameters[p],
                                                   a.t.parameters[p]);
                              }),
           adam_right, ""},
          {"adam", "fused per parameter", tensors, 28 * n,
           for_each_parameter(a,
                              [=, &a](size_t p) {
                                adam({a.w.parameters[p]}, a.m.parameters[p], a.v.parameters[p],
                                     a.g.parameters[p]);
                              }),
           adam_right, ""},
          {"adam", "fused, flat (shipped)", 1, 28 * P,
           [=, &a] { adam({a.w.flat()}, a.m.flat(), a.v.flat(), a.g.flat()); }, adam_right, ""},
          {"adam", "and a bf16 copy of w", 1, 30 * P,
           [=, &a] {
             adam({a.w.flat(), copy.view()}, a.m.flat(), a.v.flat(), a.g.flat());
           },
           adam_right, ""},
          {"sgd", "three operations", 3 * tensors, 32 * n,
           for_each_parameter(a,
                              [&a](size_t p) {
                                sgd_by_operations(a.w.parameters[p], a.m.parameters[p],
                                                  a.g.parameters[p]);
                              }),
           sgd_right, ""},
          {"sgd", "momentum, flat (shipped)", 1, 20 * P,
           [&a, outcome = make_outcome(1, a.device)] {
             sgd_step({a.w.flat()}, a.m.flat(), a.g.flat(), outcome.view(), sgd_scalars);
           },
           sgd_right, ""}};
}

std::vector<Rung> all_ladders(const Arrays& a, int64_t micro_batch_size) {
  std::vector<Rung> rungs{{"copy", "copy", 1, 8 * a.size(), [&a] { copy(a.t.flat(), a.g.flat()); },
                           [&a] {
                             const auto from = a.g.initial.span<float>();
                             return worst_error(a.t.values.to(Device::cpu).span<float>(),
                                                [=](size_t i) {
                                                  return Expected{from[i], 0};
                                                });
                           },
                           ""}};
  for (auto&& ladder : {accumulate_ladder(a), gemm_ladder(a, micro_batch_size), scaling_ladder(a),
                        optimizer_ladder(a)})
    rungs.insert(rungs.end(), ladder.begin(), ladder.end());
  return rungs;
}

}  // namespace accrue::ladder
