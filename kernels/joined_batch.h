#pragma once

#include <functional>

#include "core/inside.h"
#include "core/tensor.h"
#include "kernels/norm.h"

namespace accrue {

// A batch in parts, each with its own forward and backward, that is normalised as a whole:
// batch_norm() takes the statistics of all parts, and its gradient goes through them. The parts may
// be the micro-batches of a window (train/interleaved_walk.h), or the batches of ranks (known as
// SyncBN). All parts run the same ops in the same order, and wait for each other wherever a value
// depends on all parts.
class detail::JoinedBatch {
 public:
  virtual ~JoinedBatch() = default;

  // Both functions wait until every part has called them with its own(). Then one part calls
  // of_all, or a copy of it, with all contributions, [parts, ...] in the order of the parts, each
  // of own()'s shape. Every part gets the result. Tensors may have moved meanwhile
  // (core/offload.h), so take new views of them.
  using Own = std::function<Tensor()>;
  using OfAll = std::function<Tensor(const Tensor& of_parts)>;
  // Identifies one run of a norm in the forward of each part.
  struct Run {
    const void* norm = nullptr;
    size_t number = 0;
    Tensor moments{};
    bool is(const Run& other) const { return norm == other.norm && number == other.number; }
  };
  // Forward calls this. A segment that runs for the second time (core/autograd.h, recompute()) gets
  // the same result again.
  virtual Run join_moments(const void* norm, const Own& own, const OfAll& of_all) = 0;
  // Backward calls this. In a rehearsal it returns an undefined tensor and ends the rehearsal.
  virtual Tensor join_dx_terms(const Run& run, const Own& own, const OfAll& of_all) = 0;
};

// Joins the statistics of batch_norm()'s parts, [rows, C] in wide() of its dtype. A part
// contributes three rows for each channel: its mean, the sum M_p of its squared distances from the
// mean, and its number of elements n_p. It gets back mean, rstd and N:
//   mean = sum_p n_p mean_p / N       N = sum_p n_p
//   rstd = 1 / sqrt(M / N + eps)      M = sum_p (M_p + n_p (mean_p - mean)^2).
// M / N is the variance around the common mean, and loses no digits (Chan, Golub & LeVeque 1979).
// Defined statistics in `running` move towards mean and M / (N - 1).
Tensor join_moments(const Tensor& of_parts, double eps, const RunningStatistics& running);
// A part contributes sum(gamma dy) and rstd^2 sum(gamma dy (x - mean)) of each channel, [C, 2], and
// gets the sums of all parts divided by N.
Tensor join_dx_terms(const Tensor& of_parts, const Tensor& moments);

}  // namespace accrue
