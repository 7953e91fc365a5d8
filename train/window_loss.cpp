#include "train/window_loss.h"

#include "core/autograd.h"
#include "kernels/concat.h"
#include "kernels/losses.h"
#include "train/joined_answers.h"

namespace accrue {

void WindowLoss::begin() {
  answers_.clear();
  value_.reset();
  gradient_.reset();
  begin_ = next_ = end_ = 0;
}

void WindowLoss::see(const MicroBatch& micro_batch, const Pass& pass) {
  const NoGrad no_graph;
  answers_.push_back(answer_(micro_batch, pass));
  window_size_ = micro_batch.window_size;
}

void WindowLoss::rehearse(const Samples& micro_batch, const Pass& pass) const {
  const NoGrad no_graph;
  answer_(micro_batch, pass);
}

void WindowLoss::end() {
  Tensor own;
  if (!answers_.empty()) own = concat(answers_, 0);
  answers_.clear();
  const JoinedAnswers joined = join_answers(own, window_size_, ranks_);
  check(joined.all.defined() && joined.all.size(0) > 0,
        "a loss of a window without samples: expected some");
  if (!own.defined()) return;
  begin_ = next_ = joined.begin;
  end_ = joined.begin + own.size(0);
  own.reset();
  const Tensor z = require_grad(joined.all);
  const Tensor loss = loss_(z);
  backward(loss);
  value_ = loss.detach();
  gradient_ = grad(z);
}

Tensor WindowLoss::loss(const Samples& micro_batch, const Pass& pass) {
  const Tensor z = answer_(micro_batch, pass);
  const int64_t n = z.size(0);
  check(next_ + n <= end_,
        "samples {} to {} of a window whose loss saw {}: expected the same again", next_, next_ + n,
        end_);
  const double times = double(gradient_.size(0)) / double(n);
  const Tensor loss = given_loss(z, value_, gradient_.slice(next_, next_ + n), times);
  next_ = next_ + n == end_ ? begin_ : next_ + n;
  return loss;
}

}  // namespace accrue
