#include "train/interleaved_walk.h"

#include <algorithm>
#include <utility>

#include "core/profile.h"

namespace accrue {
namespace {

// A copy, because the next micro-batch may be prepared in the same memory.
MicroBatch copy_of(const MicroBatch& micro_batch) {
  MicroBatch copy = micro_batch;
  for (auto& [name, values] : copy.fields) values = values.to(values.device(), Category::data);
  if (copy.indices.defined()) copy.indices = copy.indices.to(copy.indices.device());
  return copy;
}

}  // namespace

void InterleavedWalk::run(const MicroBatch& micro_batch, const Pass& of_micro_batch,
                          const MicroBatchWork& work) {
  Pass pass = of_micro_batch;
  pass.batch = this;
  const auto run_part = [this, work](const MicroBatch& part, const Pass& own_pass) {
    const RehearsalScope decide(*this);
    work(part, own_pass);
  };
  if (joined_.is_one_process() && parts_.empty() && micro_batch.ends_window)
    return run_part(micro_batch, pass);
  check(!Profile::current(),
        "micro-batches whose BatchNorms see the window take turns, which a profile cannot follow: "
        "expected no profile");
  parts_.push_back(std::make_unique<Part>([this, &micro_batch, pass, run_part]() mutable {
    std::optional<Offload::Scope> scope;
    if (by_ == BatchNormBy::offload) scope.emplace(parts_[running_]->offload);
    const MicroBatch own = copy_of(micro_batch);
    if (own.indices.defined()) pass.samples = own.indices;
    run_part(own, pass);
  }));
  resume(parts_.size() - 1);
}

std::string InterleavedWalk::why_alone() const {
  return "keeps whole windows for BatchNorms beside other players: expected it alone, or "
         "batch-norm-by walk";
}

void InterleavedWalk::resume(size_t part) {
  running_ = part;
  parts_[part]->activity.resume();
}

void InterleavedWalk::finish() {
  if (parts_.empty()) return joined_.follow_others();
  while (!own_.empty()) {
    check(own_.size() == parts_.size(),
          "{} of the {} micro-batches of a window come to a BatchNorm: expected all", own_.size(),
          parts_.size());
    for (size_t part = 0; part < parts_.size(); ++part) resume(part);
    of_all_.reset();
  }
  joined_.done();
}

JoinedBatch::Run InterleavedWalk::join_moments(const void* norm, const Own& own,
                                               const OfAll& of_all) {
  OfNorm& known = norms_[norm];
  if (!recomputing()) {
    const Tensor moments = meet(own(), of_all);
    if (running_ == 0) known.moments = moments, ++known.times;
    return {.norm = norm, .moments = moments};
  }
  check(known.times == 1,
        "a BatchNorm that sees the window is computed again, and has run {} times before: expected "
        "once in a forward, or no recomputation",
        known.times);
  of_segment_.push_back(norm);
  return {.norm = norm, .moments = known.moments};
}

Tensor InterleavedWalk::join_dx_terms(const Run& run, const Own& own, const OfAll& of_all) {
  if (const Tensor& known = norms_[run.norm].dx_terms; known.defined()) return known;
  if (!rehearsing()) return meet(own(), of_all);
  rehearsed_ = {run.norm, own(), of_all};
  end_rehearsal();
  return {};
}

// The first micro-batch to resume computes the result for all.
Tensor InterleavedWalk::meet(const Tensor& own, const OfAll& of_all) {
  check(own_.empty() || own_.front().shape() == own.shape(),
        "micro-batches of a window come to BatchNorms with sums {} and {}: expected the same norm",
        own_.empty() ? Shape() : own_.front().shape(), own.shape());
  own_.push_back(own);
  if (!parts_.empty()) {
    if (by_ == BatchNormBy::offload) parts_[running_]->offload.move_to_host();
    parts_[running_]->activity.suspend();
  }
  if (running_ == 0) of_all_ = of_all(joined_.of_all(std::exchange(own_, {})));
  return of_all_;
}

bool InterleavedWalk::is_one() {
  return !std::exchange(was_in_vain_, false) &&
         std::ranges::any_of(of_segment_,
                             [&](const void* norm) { return !norms_[norm].dx_terms.defined(); });
}

// If nothing below a norm needs a gradient, the norm has not stopped the rehearsal.
void InterleavedWalk::wait() {
  was_in_vain_ = !rehearsed_;
  if (was_in_vain_) return;
  const Rehearsed now = *std::exchange(rehearsed_, {});
  norms_[now.norm].dx_terms = meet(now.own, now.of_all);
}

}  // namespace accrue
