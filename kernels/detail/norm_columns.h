#pragma once

#include "kernels/detail/channel_sums.h"
#include "kernels/detail/norm_kernels.h"

namespace accrue {

// The pieces of rows that cuda's norms of columns are computed in.
inline int64_t column_pieces(const Grouping& at, DType dtype) {
  return ChannelPieces(at.N, at.C, 1, dtype).pieces;
}

// The functions of kernels/norm.cu for groups that are columns. `scratch` has two numbers for each
// piece of a column, then two for each column.
namespace cuda {

void column_moments(View mean, View spread, Spread kind, View x, const Grouping& at, double eps,
                    const Running& running, View scratch);
// values = act(z), or backward: values = values * act'(z).
void normalize_columns(View values, View x, const Normalizer& by, const AffineMap& map,
                       bool backward);
// The terms of dx as averages over `elements`, and the gradients that `to` wants.
void column_dx_terms(View terms, const AffineTargets& to, View dy, View x, const Normalizer& by,
                     const AffineMap& map, int64_t elements, View scratch);
// dx by the terms that are given, else with column_dx_terms().
void columns_backward(GradTarget dx, const AffineTargets& to, View dy, View x, const Normalizer& by,
                      const AffineMap& map, View given, View scratch);

}  // namespace cuda
}  // namespace accrue
