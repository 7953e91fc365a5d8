#pragma once

#include "core/tensor.h"
#include "kernels/activation.h"
#include "kernels/channels.h"

namespace accrue {

namespace detail {
class JoinedBatch;
}  // namespace detail

// y[i] = act(z[i]), z[i] = (x[i] - mean) / sqrt(var + eps) * gamma[c] + beta[c]. mean and var
// (biased: divided by the number of elements) are the moments of i's group, and c is i's channel.
// gamma and beta [C] may be undefined: then they are 1 and 0.
//                    x            a group is                                       channel
//     layer_norm     [..., C]     one row of the last dimension                    last dimension
//     rms_norm       [..., C]     one row of the last dimension                    last dimension
//     group_norm     [N, C, ...]  C / groups consecutive channels of one n         second dimension
//     instance_norm  [N, C, ...]  one channel of one n: group_norm with C groups   second dimension
//     batch_norm     [N, C, ...]  one channel over all n                           second dimension
// Backward, with xhat = (x - mean) * rstd, rstd = 1 / sqrt(var + eps), averages over the group, and
// dz = dy * act'(z) written over dy:
//   dgamma[c] = sum_{i in c} dz[i] * xhat[i]      dbeta[c] = sum_{i in c} dz[i].
//   dx[i] = rstd * (gamma dz[i] - average(gamma dz) - xhat[i] * average(gamma dz xhat)).
// rms_norm sets the mean to 0 (Zhang & Sennrich 2019): z = x * rstd * gamma with
// rstd = 1 / sqrt(average(x^2) + eps), and dx has no term average(gamma dz).
// Keeps x, and mean and rstd of each group. An activation does not need y, since z follows from x;
// y is kept where x is not.
// dx goes over dy where it can. The variance is summed around the mean in a second pass, so a large
// mean costs no digits.
// Throws Error unless the shapes agree and every group has at least two elements.
Tensor layer_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, double eps = 1e-5);
// Normalizes each row of the last dimension, with 0 for the mean.
Tensor rms_norm(const Tensor& x, const Tensor& gamma, double eps = 1e-6);

namespace detail {

// Returns x[k] / |x[k]| for rows x [K, D], computed by rms_norm.
Tensor unit_rows(const Tensor& x);

}  // namespace detail

// Normalizes groups of channels of each sample.
Tensor group_norm(const Tensor& x, int64_t groups, const Tensor& gamma, const Tensor& beta,
                  Activation activation = Activation::none, double eps = 1e-5);

namespace detail {

// The moments of group_norm's groups, [N * groups] each, in wide() of x's type.
struct GroupMoments {
  Tensor mean, rstd;
};
GroupMoments group_moments(const Tensor& x, int64_t groups, double eps = 1e-5);

}  // namespace detail

// group_norm with given moments, such as the moments of images that x is cut from. They are
// constants: dx[i] = rstd * gamma * dz[i].
Tensor group_norm(const Tensor& x, const detail::GroupMoments& moments, const Tensor& gamma,
                  const Tensor& beta, Activation activation = Activation::none);

// Normalizes each channel of each sample.
Tensor instance_norm(const Tensor& x, const Tensor& gamma = {}, const Tensor& beta = {},
                     double eps = 1e-5, Activation activation = Activation::none);

namespace detail {

enum class NormMode { train, eval };

// The moments that batch_norm keeps for evaluation, [C] each, with PyTorch's conventions. A forward
// in train mode sets running = (1 - momentum) * running + momentum * value of this micro-batch,
// with the unbiased variance.
struct RunningStatistics {
  Tensor mean, var;
  double momentum = 0.1;
};

// Train mode normalizes by the statistics of x, and updates `running` with them (also under
// NoGrad). Eval mode normalizes by running.mean and running.var, which are constants: dx = rstd *
// gamma * dz, and x is kept only if gamma or beta wants a gradient. Accumulation is not equivalent
// to one large batch: the statistics come from one micro-batch, and `running` is updated once per
// micro-batch.
// With channels last x is [N, H, W, C], which is permuted on the CPU.
Tensor batch_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                  const RunningStatistics& running, NormMode mode, double eps = 1e-5,
                  Activation activation = Activation::none, Channels channels = Channels::first);

// The same in train mode for x that is a part of a batch (kernels/joined_batch.h). The averages
// above are over all parts, and so are the statistics that update `running`, once. Accumulation is
// then equivalent to one large batch. x may have a single element of a channel if the batch has
// more. `norm` identifies a norm of the network when segments are computed twice.
Tensor batch_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                  const RunningStatistics& running, JoinedBatch& whole, const void* norm,
                  double eps = 1e-5, Activation activation = Activation::none,
                  Channels channels = Channels::first);

}  // namespace detail

}  // namespace accrue
