#include "train/window_loss.h"

#include "core/autograd.h"
#include "kernels/concat.h"
#include "kernels/losses.h"

namespace accrue {

void WindowLoss::begin() {
  answers_.clear();
  value_.reset();
  gradient_.reset();
}

void WindowLoss::see(const Samples& micro_batch, const Pass& pass) {
  const NoGrad no_graph;
  answers_.push_back(answer_(micro_batch, pass));
}

void WindowLoss::rehearse(const Samples& micro_batch, const Pass& pass) const {
  const NoGrad no_graph;
  answer_(micro_batch, pass);
}

void WindowLoss::end() {
  check(!answers_.empty(), "a loss of a window without samples: expected some");
  const Tensor z = require_grad(concat(answers_, 0));
  answers_.clear();
  const Tensor loss = loss_(z);
  backward(loss);
  value_ = loss.detach();
  gradient_ = grad(z);
  next_ = 0;
}

Tensor WindowLoss::loss(const Samples& micro_batch, const Pass& pass) {
  const Tensor z = answer_(micro_batch, pass);
  const int64_t n = z.size(0), N = gradient_.defined() ? gradient_.size(0) : 0;
  check(next_ + n <= N, "samples {} to {} of a window whose loss saw {}: expected the same again",
        next_, next_ + n, N);
  const Tensor loss =
      given_loss(z, value_, gradient_.slice(next_, next_ + n), double(N) / double(n));
  next_ = (next_ + n) % N;
  return loss;
}

}  // namespace accrue
