#include "train/repeated_walk.h"

#include <algorithm>
#include <utility>

#include "core/autograd.h"

namespace accrue {

void RepeatedWalk::look_ahead(const WindowAhead& window) {
  do
    window.walk([&](const MicroBatch& micro_batch, const Pass& pass) {
      rehearse(micro_batch, pass, window.rehearse);
    });
  while (!end_walk());
}

void RepeatedWalk::run(const MicroBatch& micro_batch, const Pass& pass,
                       const MicroBatchWork& work) {
  forwards_.clear();
  Pass part = pass;
  part.batch = this;
  work(micro_batch, part);
}

void RepeatedWalk::rehearse(const MicroBatch& micro_batch, const Pass& pass,
                            const MicroBatchWork& work) {
  is_alone_ = parts_ == 0 && micro_batch.ends_window && joined_.is_one_process();
  if (is_alone_) return;
  ++parts_;
  is_rehearsing_ = true;
  try {
    run(micro_batch, pass, work);
  } catch (const Unknown&) {
  }
  is_rehearsing_ = false;
}

bool RepeatedWalk::end_walk() {
  if (is_alone_) return true;
  if (parts_ == 0) {
    joined_.follow_others();
    return true;
  }
  ++walks_;
  const std::vector<Tensor> own = std::exchange(own_, {});
  check(own.empty() || own.size() == parts_,
        "{} of the {} micro-batches of a window come to a BatchNorm: expected all", own.size(),
        parts_);
  parts_ = 0;
  if (!own.empty()) {
    const Tensor of_all = of_all_(joined_.of_all(own));
    if (lacking_.moments.defined()) {
      find(lacking_)->dx_terms = of_all;
    } else {
      lacking_.moments = of_all;
      known_.push_back({std::exchange(lacking_, {})});
    }
    of_all_ = nullptr;
  }
  // If nothing below a norm needs a gradient, the norm never contributes its terms.
  const bool is_last = own.empty() || std::ranges::all_of(known_, [](const Known& one) {
                         return one.dx_terms.defined();
                       });
  if (!is_last) return false;
  joined_.done();
  check(walks_ <= most_,
        "BatchNorms that see the window run {} times in a forward, so to walk it takes {} passes "
        "more through the window: expected at most window-passes {}; allow {}, or batch-norm-by "
        "keep",
        known_.size(), walks_, most_, walks_);
  return true;
}

JoinedBatch::Run RepeatedWalk::join_moments(const void* norm, const Own& own, const OfAll& of_all) {
  if (recomputing()) {
    check(forwards_[norm] == 1,
          "a BatchNorm that sees the window is computed again, and has run {} times before: "
          "expected once in a forward, or no recomputation",
          forwards_[norm]);
    return find({.norm = norm})->run;
  }
  Run run{.norm = norm, .number = forwards_[norm]++};
  if (const Known* const known = find(run)) return known->run;
  if (is_rehearsing_) {
    bring(run, own(), of_all);
    throw Unknown();
  }
  run.moments = of_this_part(own, of_all);
  known_.push_back({run});
  return run;
}

Tensor RepeatedWalk::join_dx_terms(const Run& run, const Own& own, const OfAll& of_all) {
  if (const Known* const known = find(run); known->dx_terms.defined()) return known->dx_terms;
  if (!is_rehearsing_) return of_this_part(own, of_all);
  bring(run, own(), of_all);
  end_rehearsal();
  return {};
}

// Only a micro-batch that is alone in its window comes here: it has not been rehearsed.
Tensor RepeatedWalk::of_this_part(const Own& own, const OfAll& of_all) {
  check(walks_ == 0, "a micro-batch comes to a BatchNorm that it did not come to in rehearsal");
  return of_all(joined_.of_all({own()}));
}

void RepeatedWalk::bring(const Run& run, Tensor own, const OfAll& of_all) {
  check(own_.empty() || lacking_.is(run),
        "micro-batches of a window come to different BatchNorms: expected the same");
  if (own_.empty()) lacking_ = run, of_all_ = of_all;
  own_.push_back(std::move(own));
}

RepeatedWalk::Known* RepeatedWalk::find(const Run& run) {
  const auto found =
      std::ranges::find_if(known_, [&](const Known& one) { return one.run.is(run); });
  return found == known_.end() ? nullptr : &*found;
}

}  // namespace accrue
