#include "train/counted_losses.h"

#include <algorithm>

#include "accumulate/decision.h"
#include "core/memory_scope.h"
#include "kernels/arithmetic.h"

namespace accrue {

class CountedLosses::CountFirst : public WindowWalk {
 public:
  CountFirst(CountedLosses& losses, const MakeWalk& each)
      : losses_(losses), each_(each ? each() : std::make_unique<WindowWalk>()) {}

  void look_ahead(const WindowAhead& window) override {
    losses_.count(window);
    each_->look_ahead(window);
  }
  void run(const MicroBatch& micro_batch, const Pass& pass, const MicroBatchWork& work) override {
    each_->run(micro_batch, pass, work);
  }
  void finish() override {
    each_->finish();
    losses_.counts_.clear();
  }
  std::string why_alone() const override { return each_->why_alone(); }

 private:
  CountedLosses& losses_;
  const std::unique_ptr<WindowWalk> each_;
};

std::unique_ptr<WindowWalk> CountedLosses::walk(MakeWalk each) {
  return std::make_unique<CountFirst>(*this, each);
}

void CountedLosses::count(const WindowAhead& window) {
  const MemoryScope scope(Phase::forward, "weights of the losses");
  counts_.clear();
  totals_.clear();
  next_ = 0;
  bool is_real = true;
  window.walk([&](const MicroBatch& micro_batch, const Pass&) {
    const NoGrad no_graph;
    Counts here{micro_batch.size(), {}};
    for (const Tensor& weight : weights_(micro_batch)) {
      const bool is_known = weight.defined() && !is_meta(weight.device());
      if (weight.defined() && !is_known) is_real = false;
      here.of_loss.push_back(is_known ? weight.item() : double(here.samples));
    }
    totals_.resize(1 + here.of_loss.size());
    totals_[0] += double(here.samples);
    for (size_t k = 0; k < here.of_loss.size(); ++k) totals_[k + 1] += here.of_loss[k];
    counts_.push_back(std::move(here));
  });
  if (!ranks_ || !is_real) return;
  // A rank without samples does not know how many losses there are.
  size_t most = 0;
  for (const int64_t size : ranks_->all_of(std::ssize(totals_)))
    most = std::max(most, static_cast<size_t>(size));
  totals_.resize(most);
  ranks_->add_up(totals_);
}

double CountedLosses::share(const Counts& here, size_t loss) const {
  const double all = totals_.at(loss + 1);
  return all == 0 ? 0 : totals_[0] * here.of_loss.at(loss) / (double(here.samples) * all);
}

Loss CountedLosses::loss(const Samples& micro_batch, const Pass& pass) {
  const bool is_alone = counts_.empty();
  const Counts here = is_alone ? Counts{micro_batch.size(), {}} : counts_.at(next_);
  check(here.samples == micro_batch.size(),
        "a micro-batch of {} samples, where {} were counted: expected the same window again",
        micro_batch.size(), here.samples);
  // Micro-batches whose BatchNorms wait for each other begin in order, and end in any.
  if (!is_alone) next_ = (next_ + 1) % counts_.size();
  const std::vector<NamedLoss> losses = losses_(micro_batch, pass);
  Tensor sum;
  std::vector<Tensor> terms;
  for (size_t k = 0; k < losses.size(); ++k) {
    const Tensor own = is_alone ? losses[k].value : scale(losses[k].value, share(here, k));
    terms.push_back(own.detach());
    const Tensor times = losses[k].factor == 1 ? own : scale(own, losses[k].factor);
    sum = sum.defined() ? add(sum, times) : times;
  }
  if (terms.size() > max_loss_terms) terms.clear();
  return Loss(std::move(sum), std::move(terms));
}

}  // namespace accrue
