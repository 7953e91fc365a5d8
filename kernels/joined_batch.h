#pragma once

#include <functional>

#include "core/inside.h"
#include "core/tensor.h"
#include "kernels/norm.h"

namespace accrue {

// A batch that comes in parts, each with a forward and a backward of its own, and is normalised as
// one: batch_norm() takes the statistics of all parts, and its gradient goes through them. The
// parts may be the micro-batches of a window (train/interleaved_walk.h), or what ranks hold (known
// as SyncBN). All run the same ops in the same order, and meet wherever they need what depends on
// all.
class detail::JoinedBatch {
 public:
  virtual ~JoinedBatch() = default;

  // Both wait until every part has come here, and return to each what `of_all` makes of what they
  // brought, [parts, ...] in their order, each of own()'s shape. One of them calls it, or a copy.
  // Tensors may have moved meanwhile (core/offload.h), so views are to be taken anew.
  using Own = std::function<Tensor()>;
  using OfAll = std::function<Tensor(const Tensor& of_parts)>;
  // One of the times that a norm runs in a forward of each part.
  struct Run {
    const void* norm = nullptr;
    size_t number = 0;
    Tensor moments{};
    bool is(const Run& other) const { return norm == other.norm && number == other.number; }
  };
  // In forward. A segment that runs for a second time (core/autograd.h, recompute()) gets what it
  // got.
  virtual Run join_moments(const void* norm, const Own& own, const OfAll& of_all) = 0;
  // In backward. Undefined in a rehearsal, which is then ended.
  virtual Tensor join_dx_terms(const Run& run, const Own& own, const OfAll& of_all) = 0;
};

// What batch_norm() brings and gets, [rows, C] in wide() of its dtype. A part brings its mean, the
// sum of its squared distances from it, and its number of elements n of a channel (rows); it gets
//   mean = sum_p n_p mean_p / N       N = sum_p n_p
//   rstd = 1 / sqrt(M / N + eps)      M = sum_p (M_p + n_p (mean_p - mean)^2)
// and N. This is the variance around the mean of all, and loses no digits (Chan, Golub & LeVeque
// 1979). The statistics that are undefined stay; others move towards mean and M / (N - 1).
Tensor join_moments(const Tensor& of_parts, double eps, const RunningStatistics& running);
// A part brings sum(gamma dy) and rstd^2 sum(gamma dy (x - mean)) of each channel, [C, 2], and gets
// the sums of all parts divided by N.
Tensor join_dx_terms(const Tensor& of_parts, const Tensor& moments);

}  // namespace accrue
