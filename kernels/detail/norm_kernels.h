#pragma once

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "kernels/backend.h"

namespace accrue {

// x as [N, C, S], and which of its elements are normalised together: K consecutive channels, of
// one n or of all. A group is `runs()` runs of K * S elements that lie C * S apart.
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
  // The group of channel c of sample n.
  HOST_DEVICE int64_t group_of(int64_t n, int64_t c) const {
    return over == Over::batch ? c / K : n * per_sample() + c / K;
  }
};

// Into how many pieces cuda cuts each group, for blocks of their own, where groups are too few to
// fill a GPU and large, as batch_norm's are. It follows from the shape alone: every device gives
// the same bits.
inline constexpr int64_t most_pieces = 512;  // of all groups
inline int64_t group_pieces(const Grouping& at) {
  constexpr int64_t least = 8192;  // elements that are worth a block
  return std::max<int64_t>(
      1, std::min(most_pieces / std::max<int64_t>(at.count(), 1), at.elements() / least));
}

enum class Source { batch, constant };

// How each group is normalised. With constant statistics, mean and rstd do not depend on x.
struct Normalizer {
  Grouping at;
  View mean, rstd;
  Source source;
};

// Statistics that move towards those of each group (batch_norm's); undefined views stay.
struct Running {
  View mean, var;
  double momentum = 0;
};

// gamma or beta, or what stands for it where it is undefined.
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

// The formulas of one element in a group of these moments.
template <class T>
struct Standardized {
  T mean, rstd;

  HOST_DEVICE T operator()(T x) const { return (x - mean) * rstd; }
  // dx from gamma dy, the average of that over the group, and slope = rstd^2 times the average of
  // gamma dy (x - mean).
  HOST_DEVICE T backward(T x, T gamma_dy, T average, T slope) const {
    return rstd * (gamma_dy - average - (x - mean) * slope);
  }
};

}  // namespace accrue
