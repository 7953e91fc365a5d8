#pragma once

#include <cmath>
#include <limits>

#include "core/inside.h"
#include "kernels/backend.h"
#include "kernels/step/optimizer_step.h"
#include "kernels/step/step_outcome.h"

namespace accrue::detail::formula {

// The updates of one parameter, for both devices: update(w, moments..., gradient). Constructors
// compute in double the numbers that are the same for all parameters. The update_of() after each
// rule makes the update from the rule's scalars.

// An update that also rounds the new weight to its copy.
template <class Update>
struct Copied {
  Update update;

  template <class C, class T, class... Rest>
  HOST_DEVICE void operator()(C& copy, T& w, Rest&... rest) const {
    update(w, rest...);
    copy = C(w);
  }
};

// The value, or zero if it is denormal.
template <class T>
HOST_DEVICE T flush(T value) {
  return std::abs(value) < std::numeric_limits<T>::min() ? T(0) : value;
}

template <class T>
struct AdamMoments {
  T decay1, decay2, fresh1, fresh2, scale, l2;

  // For adam_step(), and for adam_fold() of a window's first micro-batch, which decays the moments.
  HOST_DEVICE AdamMoments(const AdamScalars& s, double grad_scale)
      : decay1(T(s.beta1)),
        decay2(T(s.beta2)),
        fresh1(T(1 - s.beta1)),
        fresh2(T(1 - s.beta2)),
        scale(T(grad_scale)),
        l2(T(s.decay == WeightDecay::l2 ? s.weight_decay : 0)) {}
  HOST_DEVICE AdamMoments(const AdamScalars& s, const FoldScalars& fold)
      : AdamMoments(s, fold.scale) {
    if (fold.past == PastMoments::decay) return;
    decay1 = decay2 = T(fold.past == PastMoments::stay ? 1 : 0);
    l2 = 0;
  }

  HOST_DEVICE void operator()(T& m, T& v, T w, T gradient) const {
    const T g = scale * gradient + l2 * w;
    m = flush(decay1 * m + fresh1 * g);
    v = flush(decay2 * v + fresh2 * g * g);
  }
};

// adam_begin() for both devices.
HOST_DEVICE inline void begin_adam(double* progress, const StepOutcome& step,
                                   const AdamScalars& s) {
  if (step.skipped != Skipped::no) return;
  const double t = progress[0] + 1;
  progress[0] = t;
  progress[1] = step.lr / (1 - std::pow(s.beta1, t));
  progress[2] = 1 / std::sqrt(1 - std::pow(s.beta2, t));
}

template <class T>
struct AdamWeights {
  T step_size, inverse_root, eps, shrink;

  HOST_DEVICE AdamWeights(const AdamScalars& s, const StepOutcome& step, const double* progress)
      : step_size(T(progress[1])),
        inverse_root(T(progress[2])),
        eps(T(s.eps)),
        shrink(T(s.decay == WeightDecay::decoupled ? 1 - step.lr * s.weight_decay : 1)) {}

  HOST_DEVICE void operator()(T& w, T m, T v) const {
    w = shrink * w - step_size * m / (std::sqrt(v) * inverse_root + eps);
  }
};

template <class T>
struct AdamUpdate {
  AdamMoments<T> moments;
  AdamWeights<T> weights;

  HOST_DEVICE AdamUpdate(const AdamScalars& s, const StepOutcome& step, const double* progress)
      : moments(s, step.grad_scale), weights(s, step, progress) {}

  HOST_DEVICE void operator()(T& w, T& m, T& v, T gradient) const {
    moments(m, v, w, gradient);
    weights(w, m, v);
  }
};
template <class T>
HOST_DEVICE AdamUpdate<T> update_of(const AdamScalars& s, const StepOutcome& step,
                                    const double* progress) {
  return {s, step, progress};
}

template <class T>
struct SgdUpdate {
  T lr, momentum, decay, scale;
  bool nesterov;

  HOST_DEVICE SgdUpdate(const SgdScalars& s, const StepOutcome& step)
      : lr(T(step.lr)),
        momentum(T(s.momentum)),
        decay(T(s.weight_decay)),
        scale(T(step.grad_scale)),
        nesterov(s.kind == Momentum::nesterov) {}

  HOST_DEVICE void operator()(T& w, T gradient) const { w -= lr * decayed(w, gradient); }
  HOST_DEVICE void operator()(T& w, T& u, T gradient) const {
    const T g = decayed(w, gradient);
    u = momentum * u + g;
    w -= lr * (nesterov ? g + momentum * u : u);
  }

 private:
  HOST_DEVICE T decayed(T w, T gradient) const { return scale * gradient + decay * w; }
};
template <class T>
HOST_DEVICE SgdUpdate<T> update_of(const SgdScalars& s, const StepOutcome& step, const double*) {
  return {s, step};
}

template <class T>
struct LionUpdate {
  T decay1, decay2, fresh1, fresh2, scale, lr, shrink;

  HOST_DEVICE LionUpdate(const LionScalars& s, const StepOutcome& step)
      : decay1(T(s.beta1)),
        decay2(T(s.beta2)),
        fresh1(T(1 - s.beta1)),
        fresh2(T(1 - s.beta2)),
        scale(T(step.grad_scale)),
        lr(T(step.lr)),
        shrink(T(1 - step.lr * s.weight_decay)) {}

  HOST_DEVICE void operator()(T& w, T& m, T gradient) const {
    const T g = scale * gradient, c = decay1 * m + fresh1 * g;
    const T sign = c > 0 ? T(1) : c < 0 ? T(-1) : c;
    w = shrink * w - lr * sign;
    m = flush(decay2 * m + fresh2 * g);
  }
};
template <class T>
HOST_DEVICE LionUpdate<T> update_of(const LionScalars& s, const StepOutcome& step, const double*) {
  return {s, step};
}

// Calls body.operator()<G>() with the gradient's type: T, the type of the parameters, or bfloat16
// beside float32.
template <class T, class Body>
void with_gradient(const View& gradient, Body&& body) {
  if constexpr (std::is_same_v<T, float>)
    if (gradient.dtype == DType::bf16) return body.template operator()<BFloat16>();
  body.template operator()<T>();
}

// Calls body(pointers to the moments that are not empty...). Throws Error if the update takes
// another number of moments.
template <class T, class Update, class Body>
void with_moments(const Moments& moments, Body&& body) {
  const auto is_there = [](const View& moment) { return moment.shape.rank() > 0; };
  const int count = is_there(moments[0]) + is_there(moments[1]);
  if constexpr (std::is_invocable_v<Update, T&, T>)
    if (count == 0) return body();
  if constexpr (std::is_invocable_v<Update, T&, T&, T>)
    if (count == 1) return body(moments[0].as<T>());
  if constexpr (std::is_invocable_v<Update, T&, T&, T&, T>)
    if (count == 2) return body(moments[0].as<T>(), moments[1].as<T>());
  throw Error(fmt::format("an optimizer's rule does not work on {} moments", count));
}

}  // namespace accrue::detail::formula
