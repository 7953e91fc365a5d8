#pragma once

#include <array>
#include <variant>

#include "core/view.h"

namespace accrue::detail {

// A step is one fused pass over the flat parameters; all views are [P]. lr, grad_scale and whether
// the step is skipped come from the window's outcome (kernels/step/step_outcome.h), which is on the
// same device. A skipped step changes nothing. The gradient is the window's sum times grad_scale =
// N / W / loss_scale * clip: unscaling, the short last window and clipping cost one multiplication.
//
// A rule says how one parameter moves. To add one, put its contract and its scalars here, its
// scalars into StepRule, its formula into kernels/step/optimizer_formulas.h, its class into
// optim/optimizer.cpp and its row into tests/optim/optimizer.cpp; the kernels follow from the
// formula.

// The parameters that a step changes: their values and, unless empty, a 16-bit copy of the values.
// The same pass writes the copy and does not read it.
struct Weights {
  View values, copy = {};
};

// Adam (Kingma & Ba 2015) and AdamW (Loshchilov & Hutter 2019), as PyTorch computes them:
//    g = grad_scale * gradient            (Adam: + weight_decay * w)
//    w = w * (1 - lr * weight_decay)      (AdamW only)
//    m = beta1 * m + (1 - beta1) * g      v = beta2 * v + (1 - beta2) * g^2
//    w = w - lr / (1 - beta1^t) * m / (sqrt(v / (1 - beta2^t)) + eps)
// t is the number of steps, including this one. m and v are stored as zero where they would be
// denormal. Otherwise the moments of a weight whose gradient has ended would stay denormal for
// good, and a processor takes many times as long over such numbers.
// Bytes moved: read w, g, m, v; write w, m, v: 28 P in float32, and 2 P more for a 16-bit copy.
enum class WeightDecay { l2, decoupled };
struct AdamScalars {
  double beta1, beta2, eps, weight_decay;
  WeightDecay decay;
};

// Stochastic gradient descent with momentum (dampening 0), as PyTorch computes it:
//    g = grad_scale * gradient + weight_decay * w
//    u = momentum * u + g                 (u starts at 0)
//    w = w - lr * (nesterov ? g + momentum * u : u)
// There is no u when momentum is 0.
// Bytes moved in float32: 20 P with momentum, 12 P without.
enum class Momentum { none, heavy_ball, nesterov };
struct SgdScalars {
  double momentum, weight_decay;
  Momentum kind;
};

// Lion (Chen et al. 2023, arXiv 2302.06675): each weight moves by lr, whatever the gradient's size.
//    g = grad_scale * gradient
//    w = w * (1 - lr * weight_decay) - lr * sign(beta1 * m + (1 - beta1) * g)
//    m = beta2 * m + (1 - beta2) * g
// sign(0) is 0, and a NaN stays a NaN. m is stored as zero where it would be denormal. Otherwise
// rounding would keep it denormal for good, and its sign would forever move a weight whose gradient
// has ended. Bytes moved: 20 P in float32, and 2 P more for a 16-bit copy.
struct LionScalars {
  double beta1, beta2, weight_decay;
};

using StepRule = std::variant<AdamScalars, SgdScalars, LionScalars>;

// The moments that a rule keeps, in the order of its formula; unused ones are empty.
using Moments = std::array<View, 2>;

// Updates w and the moments by the rule. The gradient has the dtype of w, or is bf16 beside
// float32, which saves reading 2 P bytes. Only Adam reads progress, which adam_begin() has written.
void optimizer_step(Weights w, const Moments& moments, View gradient, View progress, View outcome,
                    const StepRule& rule);

inline void adam_step(Weights w, View m, View v, View gradient, View progress, View outcome,
                      const AdamScalars& scalars) {
  optimizer_step(w, {m, v}, gradient, progress, outcome, scalars);
}
inline void sgd_step(Weights w, View u, View gradient, View outcome, const SgdScalars& scalars) {
  optimizer_step(w, {u}, gradient, {}, outcome, scalars);
}

// steps += 1 unless the step is skipped. steps f64 [1] is an optimizer's own count, Adam's t.
void count_step(View steps, View outcome);

// Runs before a step of Adam: counts the step, unless it is skipped, and computes the numbers that
// are the same for all parameters. They need two powers in double, which most GPUs compute slowly.
//    progress[0] = t += 1
//    progress[1] = lr / (1 - beta1^t)
//    progress[2] = 1 / sqrt(1 - beta2^t)
// progress is f64 [3].
void adam_begin(View progress, View outcome, const AdamScalars& scalars);

// Adam in two parts. The moments are the accumulator: no sum of gradients is kept. For each
// micro-batch i of a window, scale * gradient_i is its share of the window's mean gradient, and
//    g = scale * gradient_i               (Adam: + weight_decay * w, once a window)
//    m = decay1 * m + (1 - beta1) * g
//    v = decay2 * v + (1 - beta2) * g^2
// The decays are beta1 and beta2 for the window's first micro-batch and 1 for the others. They are
// 0 for the first on a rank whose earlier moments another rank counts. Once a window, w is then
// updated as above. This is AdamA (Zhang et al., "Adam Accumulation to Reduce Memory Footprints of
// both Activations and Gradients for Large-scale DNN Training", arXiv 2305.19982). It is not Adam:
// v takes in sum_i g_i^2, not (sum_i g_i)^2, with the g_i of the micro-batches; for one micro-batch
// they are the same. Bytes moved: 20 P a micro-batch (read g, m, v; write m, v) and 16 P a window.
enum class PastMoments { decay, stay, drop };  // what happens to m and v
struct FoldScalars {
  double scale;
  PastMoments past;
};
void adam_fold(View m, View v, View w, View gradient, const FoldScalars& fold,
               const AdamScalars& scalars);
void adam_folded_step(Weights w, View m, View v, View progress, View outcome,
                      const AdamScalars& scalars);

}  // namespace accrue::detail
