#pragma once

#include <cmath>
#include <limits>

#include "kernels/backend.h"
#include "kernels/optimizer_step.h"
#include "kernels/window_state.h"

namespace accrue::formula {

// The updates of one parameter, for both devices. Constructors compute in double what is the same
// for all parameters.

template <class T>
struct AdamUpdate {
  T beta1, beta2, rest1, rest2, eps, scale, step_size, inverse_root, l2, keep;

  HOST_DEVICE AdamUpdate(const AdamScalars& s, const StepOutcome& step, double t)
      : beta1(T(s.beta1)),
        beta2(T(s.beta2)),
        rest1(T(1 - s.beta1)),
        rest2(T(1 - s.beta2)),
        eps(T(s.eps)),
        scale(T(step.grad_scale)),
        step_size(T(step.lr / (1 - std::pow(s.beta1, t)))),
        inverse_root(T(1 / std::sqrt(1 - std::pow(s.beta2, t)))),
        l2(T(s.decay == WeightDecay::l2 ? s.weight_decay : 0)),
        keep(T(s.decay == WeightDecay::decoupled ? 1 - step.lr * s.weight_decay : 1)) {}

  HOST_DEVICE void operator()(T& w, T& m, T& v, T gradient) const {
    const T g = scale * gradient + l2 * w;
    m = flush(beta1 * m + rest1 * g);
    v = flush(beta2 * v + rest2 * g * g);
    w = keep * w - step_size * m / (std::sqrt(v) * inverse_root + eps);
  }

 private:
  // Zero for a denormal number.
  HOST_DEVICE static T flush(T value) {
    return std::abs(value) < std::numeric_limits<T>::min() ? T(0) : value;
  }
};

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

}  // namespace accrue::formula
