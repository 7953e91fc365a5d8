#include "train/window_loss.h"

#include "core/autograd.h"
#include "core/memory_scope.h"
#include "kernels/concat.h"
#include "kernels/losses.h"
#include "train/joined_answers.h"

namespace accrue {

class WindowLoss::Twice : public WindowWalk {
 public:
  Twice(WindowLoss& loss, MakeWalk each)
      : loss_(loss),
        make_each_(each ? std::move(each) : [] { return std::make_unique<WindowWalk>(); }) {}

  void look_ahead(const WindowAhead& window) override {
    see(window);
    window.forget();  // restores module buffers, which the second walk updates again
    second_ = make_each_();
    second_->look_ahead(window);
  }
  void run(const MicroBatch& micro_batch, const Pass& pass, const MicroBatchWork& work) override {
    second_->run(micro_batch, pass, work);
  }
  void finish() override {
    second_->finish();
    loss_.gradient_.reset();
  }
  std::string why_alone() const override {
    return "has a loss of whole windows beside other players: expected it alone";
  }

 private:
  void see(const WindowAhead& window) {
    const MemoryScope scope(Phase::forward, "loss of the window");
    loss_.begin();
    const std::unique_ptr<WindowWalk> first = make_each_();
    first->look_ahead({.walk = window.walk,
                       .rehearse = std::bind_front(&WindowLoss::rehearse, &loss_),
                       .forget = window.forget});
    const MicroBatchWork see_one = std::bind_front(&WindowLoss::see, &loss_);
    window.walk([&](const MicroBatch& micro_batch, const Pass& pass) {
      first->run(micro_batch, pass, see_one);
    });
    first->finish();
    loss_.end();
  }

  WindowLoss& loss_;
  const MakeWalk make_each_;
  std::unique_ptr<WindowWalk> second_;
};

std::unique_ptr<WindowWalk> WindowLoss::walk(MakeWalk each) {
  return std::make_unique<Twice>(*this, std::move(each));
}

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
