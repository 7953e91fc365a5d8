#pragma once

#include "core/tensor.h"
#include "kernels/activation.h"

namespace accrue {

namespace detail {
class JoinedBatch;
}  // namespace detail

// y[i] = act(z[i]), z[i] = (x[i] - mean) / sqrt(var + eps) * gamma[c] + beta[c], where mean and
// variance (biased: divided by the number of elements) are those of the group that i is in, and c
// is its channel. gamma and beta [C] may be undefined: 1 and 0.
//                  x            a group is                                       channel
//   layer_norm     [..., C]     one row of the last dimension                    last dimension
//   rms_norm       [..., C]     one row of the last dimension                    last dimension
//   group_norm     [N, C, ...]  C / groups consecutive channels of one n         second dimension
//   instance_norm  [N, C, ...]  one channel of one n: group_norm with C groups   second dimension
//   batch_norm     [N, C, ...]  one channel over all n                           second dimension
// Backward, with xhat = (x - mean) * rstd, rstd = 1 / sqrt(var + eps), averages over the group, and
// dz = dy * act'(z) written over dy:
//   dgamma[c] = sum_{i in c} dz[i] * xhat[i]      dbeta[c] = sum_{i in c} dz[i]
//   dx[i] = rstd * (gamma dz[i] - average(gamma dz) - xhat[i] * average(gamma dz xhat))
// rms_norm takes the mean for 0 (Zhang & Sennrich 2019): z = x * rstd * gamma with rstd = 1 /
// sqrt(average(x^2) + eps), and average(gamma dz) is absent from dx.
// Keeps x, and mean and rstd of each group. An activation needs no y, since z follows from x. dx
// goes over dy where it can. The variance is summed around the mean (two passes), so that a large
// mean costs none of its digits.
// Throws Error unless the shapes agree and every group has at least two elements.
Tensor layer_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, double eps = 1e-5);
// A norm as above, with 0 for the mean: of each row of the last dimension.
Tensor rms_norm(const Tensor& x, const Tensor& gamma, double eps = 1e-6);

namespace detail {

// x[k] / |x[k]| of rows x [K, D], by rms_norm.
Tensor unit_rows(const Tensor& x);

}  // namespace detail

// A norm as above, of groups of channels of each sample.
Tensor group_norm(const Tensor& x, int64_t groups, const Tensor& gamma, const Tensor& beta,
                  Activation activation = Activation::none, double eps = 1e-5);

namespace detail {

// The moments of group_norm's groups, [N * groups] each, in wide() of x's type.
struct GroupMoments {
  Tensor mean, rstd;
};
GroupMoments group_moments(const Tensor& x, int64_t groups, double eps = 1e-5);

}  // namespace detail

// group_norm by given moments, such as those of images of which x is a part. They are constants:
// dx[i] = rstd * gamma * dz[i].
Tensor group_norm(const Tensor& x, const detail::GroupMoments& moments, const Tensor& gamma,
                  const Tensor& beta, Activation activation = Activation::none);

// A norm as above, of each channel of each sample.
Tensor instance_norm(const Tensor& x, const Tensor& gamma = {}, const Tensor& beta = {},
                     double eps = 1e-5);

namespace detail {

enum class NormMode { train, eval };

// The moments that batch_norm keeps for evaluation, [C] each, with PyTorch's conventions: after a
// forward in train mode running = (1 - momentum) * running + momentum * value of this micro-batch,
// where the variance that goes in is the unbiased one.
struct RunningStatistics {
  Tensor mean, var;
  double momentum = 0.1;
};

// In train mode groups are normalised by their own statistics, which also go into `running` (also
// under NoGrad). In eval mode they are normalised by running.mean and running.var, which are
// constants: dx = rstd * gamma * dy, and x is kept only if gamma or beta wants a gradient.
// Accumulation is not equivalent to one large batch: the statistics are those of a micro-batch, and
// `running` moves once per micro-batch.
Tensor batch_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                  const RunningStatistics& running, NormMode mode, double eps = 1e-5);

// The same in train mode where x is a part of a batch (kernels/joined_batch.h): the averages above
// are those over all parts, and so are the statistics that go into `running`, once. Accumulation
// then is equivalent. x may have a single element of a channel if the batch has more. `norm` tells
// the norms of a network apart, where segments are computed twice.
Tensor batch_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                  const RunningStatistics& running, JoinedBatch& whole, const void* norm,
                  double eps = 1e-5);

}  // namespace detail

}  // namespace accrue
