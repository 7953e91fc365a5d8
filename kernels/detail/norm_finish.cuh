#pragma once

#include "core/launch.cuh"
#include "kernels/detail/norm_kernels.h"

namespace accrue::cuda {

// How the sums over a group are finished. Where groups are channels, gamma is not in the sums: they
// are also the gradients of gamma and beta.
template <class T, class W = Wide<T>>
struct Finish {
  Statistics<W> statistics;
  ThroughRelu<T> through;
  ChannelGradients<W> to;
  bool are_channels;
  int64_t elements;

  Finish(const Normalizer& by, const AffineMap& map, const AffineTargets& to, int64_t elements)
      : statistics(by.statistics<W>()),
        through(map),
        to(to),
        are_channels(by.at.are_channels()),
        elements(elements) {}

  // The factors in the sums.
  __device__ PerChannel<W> factors() const {
    PerChannel<W> factors = through.gamma;
    if (are_channels) factors.values = nullptr;
    return factors;
  }
  // Returns the terms of group g. One thread of those that call this `stores` gradients.
  template <class Sum>
  __device__ DxTerms<W> operator()(int64_t g, Sum sum, Sum product, bool stores) const {
    if (are_channels) {
      if (stores) to.store(g, static_cast<W>(sum), static_cast<W>(product), statistics[g].rstd);
      sum *= through.gamma[g];
      product *= through.gamma[g];
    }
    return statistics.dx_terms(g, sum, product, elements);
  }
};

}  // namespace accrue::cuda
