#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <type_traits>

#include "core/inside.h"
#include "kernels/activation.h"
#include "kernels/backend.h"

namespace accrue {

// x as [N, C, S], and which of its elements are normalised together: K consecutive channels, of one
// n or of all. A group is `runs()` runs of K * S elements that lie C * S apart.
struct Grouping {
  enum class Over { sample, batch };
  int64_t N, C, S, K;
  Over over;

  HOST_DEVICE int64_t per_sample() const { return C / K; }
  HOST_DEVICE int64_t count() const {
    return over == Over::batch ? per_sample() : N * per_sample();
  }
  HOST_DEVICE int64_t runs() const { return over == Over::batch ? N : 1; }
  HOST_DEVICE int64_t elements() const { return runs() * K * S; }
  // True if each group is all of a channel.
  bool are_channels() const { return over == Over::batch && K == 1; }
  // True if each is a column of x [N, C], as of images with channels last.
  bool are_columns() const { return are_channels() && S == 1; }
  // The group of channel c of sample n.
  HOST_DEVICE int64_t group_of(int64_t n, int64_t c) const {
    return over == Over::batch ? c / K : n * per_sample() + c / K;
  }
};

// The number of pieces into which cuda cuts each group, with a block for each piece. This helps if
// groups are large and too few to fill a GPU, like batch_norm's. The shape alone decides: every
// device gives the same bits.
inline constexpr int64_t most_pieces = 512;  // of all groups
inline int64_t group_pieces(const Grouping& at) {
  constexpr int64_t least = 8192;  // elements that are worth a block
  return std::max<int64_t>(
      1, std::min(most_pieces / std::max<int64_t>(at.count(), 1), at.elements() / least));
}

// True if a group is so small that the kernel that computes its moments also normalizes it: a
// thread of cuda's finds its elements in the first cache, and a block is done soon. Columns are not
// read one by one there.
inline bool is_normalized_at_once(const Grouping& at, Device device) {
  return at.elements() <= 8192 && !(at.are_columns() && plans_for_cuda(device));
}

// Running statistics, which move towards the statistics of each group (batch_norm's). Undefined
// views are left alone.
struct Running {
  View mean, var;
  double momentum = 0;
};

// gamma or beta, or a constant in place of an undefined one.
template <class T>
struct PerChannel {
  const T* values;
  T otherwise;

  PerChannel(View view, T otherwise)
      : values(view.data ? view.as<T>() : nullptr), otherwise(otherwise) {}
  HOST_DEVICE T operator[](int64_t c) const { return values ? values[c] : otherwise; }
};

template <class T>
HOST_DEVICE T rstd_of(T var, double eps) {
  return 1 / std::sqrt(var + static_cast<T>(eps));
}

template <class T>
HOST_DEVICE void move_towards(T value, T& running, double momentum) {
  running = static_cast<T>((1 - momentum) * static_cast<double>(running) +
                           momentum * static_cast<double>(value));
}

// The number that is stored beside the mean of a group: rstd = 1 / sqrt(variance + eps). For a part
// of a larger group it is the sum of the squared distances from the mean.
enum class Spread { rstd, deviations };

// Where mean and spread of each group are stored, and the running statistics that move towards mean
// and variance, if there are any. Without a mean, the mean counts as 0, and the variance is around
// 0 (rms_norm).
template <class W>
struct MomentsOut {
  W *mean = nullptr, *spread;
  Spread kind;
  int64_t elements;  // of a group
  double eps;
  W *running_mean = nullptr, *running_var = nullptr;
  double momentum;

  MomentsOut(View mean, View spread, Spread kind, const Grouping& at, double eps,
             const Running& running)
      : spread(spread.as<W>()),
        kind(kind),
        elements(at.elements()),
        eps(eps),
        momentum(running.momentum) {
    if (mean.data) this->mean = mean.as<W>();
    if (running.mean.data) running_mean = running.mean.as<W>(), running_var = running.var.as<W>();
  }

  // `deviations` is the sum of the squared distances from the mean.
  template <class Sum>
  HOST_DEVICE W rstd(Sum deviations) const {
    return rstd_of(static_cast<W>(deviations / static_cast<Sum>(elements)), eps);
  }
  template <class Sum>
  HOST_DEVICE void store(int64_t g, W center, Sum deviations) const {
    if (mean) mean[g] = center;
    spread[g] = kind == Spread::deviations ? static_cast<W>(deviations) : rstd(deviations);
    if (!running_mean) return;
    move_towards(center, running_mean[g], momentum);
    move_towards(static_cast<W>(deviations / static_cast<Sum>(elements - 1)), running_var[g],
                 momentum);
  }
};

// With d = gamma * dy,
//   dx = rstd * (d - average(d) - (x - mean) * slope)      slope = rstd^2 * average(d * (x - mean))
// One pass therefore computes the two averages, and another writes dx. A mean that is always 0 does
// not depend on x; `average` is then 0.
template <class W>
struct DxTerms {
  W average, slope;
};

// The formulas of one element in a group with these moments.
template <class T>
struct Standardized {
  T mean, rstd;

  HOST_DEVICE T operator()(T x) const { return (x - mean) * rstd; }
  // dx from d = gamma * dy.
  HOST_DEVICE T backward(T x, T d, const DxTerms<T>& terms) const {
    return rstd * (d - terms.average - (x - mean) * terms.slope);
  }
};

// The mean and rstd by which each group is normalised.
template <class W>
struct Statistics {
  const W *mean, *rstd;  // no mean: 0

  Statistics(View mean, View rstd)
      : mean(mean.data ? mean.as<const W>() : nullptr), rstd(rstd.as<const W>()) {}
  HOST_DEVICE Standardized<W> operator[](int64_t g) const {
    return {mean ? mean[g] : W(0), rstd[g]};
  }
  // Computes the terms from the sums of d and of d * (x - mean).
  template <class Sum>
  HOST_DEVICE DxTerms<W> dx_terms(int64_t g, Sum sum, Sum product, int64_t elements) const {
    const auto count = static_cast<Sum>(elements);
    return {mean ? static_cast<W>(sum / count) : W(0),
            rstd[g] * rstd[g] * static_cast<W>(product / count)};
  }
};

// The map that follows the standardized elements: z = xhat * gamma[c] + beta[c], and an activation.
struct AffineMap {
  View gamma, beta;
  Activation activation;
};

// dz from dy, the gradient of act(z): dy where y > 0 or there is no relu, else 0. z is computed
// again as it was in forward, and y is rounded as it was.
template <class T>
struct ThroughRelu {
  using W = Wide<T>;
  bool is_relu;
  PerChannel<W> gamma, beta;

  explicit ThroughRelu(const AffineMap& map)
      : is_relu(map.activation == Activation::relu), gamma(map.gamma, 1), beta(map.beta, 0) {}
  // dz where there is a relu, by gamma and beta of the element's channel.
  HOST_DEVICE static W dz(const Standardized<W>& standardized, T x, T dy, W gamma, W beta) {
    const T y = T(formula::Relu{}(standardized(x) * gamma + beta));
    return formula::Backward<formula::Relu>{}(widen(dy), widen(y));
  }
};

// The gradients of gamma and beta, as far as they are wanted.
struct AffineTargets {
  std::optional<GradTarget> dgamma, dbeta;
};

// A target for the sums of channels: out[c] = sum + beta * out[c]. It may be absent.
template <class W>
struct ChannelTarget {
  W* values;
  float beta;

  explicit ChannelTarget(const std::optional<GradTarget>& target)
      : values(target ? target->grad.as<W>() : nullptr), beta(target ? target->beta : 0) {}
  HOST_DEVICE void store(int64_t c, W sum) const {
    if (values) values[c] = beta == 0 ? sum : values[c] + sum;
  }
};

// Where groups are channels, the sums of dz and of dz * (x - mean) give the gradients of beta and
// gamma as well as the terms of dx.
template <class W>
struct ChannelGradients {
  ChannelTarget<W> dgamma, dbeta;

  explicit ChannelGradients(const AffineTargets& to) : dgamma(to.dgamma), dbeta(to.dbeta) {}
  HOST_DEVICE void store(int64_t c, W sum, W product, W rstd) const {
    dgamma.store(c, product * rstd);
    dbeta.store(c, sum);
  }
};

enum class Source { batch, constant };

// How each group is normalised. With constant statistics, mean and rstd do not depend on x.
struct Normalizer {
  Grouping at;
  View mean, rstd;
  Source source;

  template <class W>
  Statistics<W> statistics() const {
    return {mean, rstd};
  }
};

}  // namespace accrue
