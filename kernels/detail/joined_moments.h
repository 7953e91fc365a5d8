#pragma once

#include "kernels/detail/norm_kernels.h"

namespace accrue {

// The formulas of kernels/joined_batch.h for one channel, in float64. They add in the order of the
// parts, which are few.
template <class W>
struct JoinedMoments {
  W *mean, *rstd, *elements;
  const W* of_parts;  // [parts, 3, C]
  int64_t parts, C;
  double eps;
  W *running_mean = nullptr, *running_var = nullptr;
  double momentum;

  JoinedMoments(View moments, View of_parts, double eps, const Running& running)
      : mean(moments.as<W>()),
        rstd(mean + moments.shape[1]),
        elements(rstd + moments.shape[1]),
        of_parts(of_parts.as<const W>()),
        parts(of_parts.shape[0]),
        C(moments.shape[1]),
        eps(eps),
        momentum(running.momentum) {
    if (running.mean.data) running_mean = running.mean.as<W>(), running_var = running.var.as<W>();
  }

  // The number of elements that channel c has in all parts.
  HOST_DEVICE double elements_of(int64_t c) const {
    double N = 0;
    for (int64_t p = 0; p < parts; ++p) N += of_parts[(p * 3 + 2) * C + c];
    return N;
  }
  HOST_DEVICE void store(int64_t c) const {
    const double N = elements_of(c);
    double sum = 0, deviations = 0;
    for (int64_t p = 0; p < parts; ++p) {
      const W* part = of_parts + p * 3 * C + c;
      sum += static_cast<double>(part[2 * C]) * part[0];
    }
    const double center = sum / N;
    for (int64_t p = 0; p < parts; ++p) {
      const W* part = of_parts + p * 3 * C + c;
      const double away = part[0] - center;
      deviations += part[C] + part[2 * C] * away * away;
    }
    mean[c] = static_cast<W>(center);
    rstd[c] = rstd_of(static_cast<W>(deviations / N), eps);
    elements[c] = static_cast<W>(N);
    if (!running_mean) return;
    move_towards(mean[c], running_mean[c], momentum);
    move_towards(static_cast<W>(deviations / (N - 1)), running_var[c], momentum);
  }
};

template <class W>
struct JoinedDxTerms {
  W* terms;           // [C, 2]
  const W* of_parts;  // [parts, C, 2]
  const W* elements;
  int64_t parts, C;

  JoinedDxTerms(View terms, View of_parts, View moments)
      : terms(terms.as<W>()),
        of_parts(of_parts.as<const W>()),
        elements(moments.as<const W>() + 2 * moments.shape[1]),
        parts(of_parts.shape[0]),
        C(moments.shape[1]) {}

  HOST_DEVICE void store(int64_t i) const {
    double sum = 0;
    for (int64_t p = 0; p < parts; ++p) sum += of_parts[p * 2 * C + i];
    terms[i] = static_cast<W>(sum / elements[i / 2]);
  }
};

}  // namespace accrue
