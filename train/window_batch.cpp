#include "train/window_batch.h"

#include <algorithm>

#include "core/profile.h"

namespace accrue {
namespace {

// The next micro-batch may be prepared in the same memory.
MicroBatch copy_of(const MicroBatch& micro_batch) {
  MicroBatch copy = micro_batch;
  for (auto& [name, values] : copy.fields) values = values.to(values.device(), Category::data);
  if (copy.indices.defined()) copy.indices = copy.indices.to(copy.indices.device());
  return copy;
}

// Rows beside each other in a table of `most`; those that are missing are 0, and count nothing.
Tensor table_of(const std::vector<Tensor>& rows, int64_t most) {
  const Tensor& first = rows.front();
  const Shape shape{most, first.size(0), first.size(1)};
  const Tensor table = std::ssize(rows) == most
                           ? Tensor::empty(shape, first.dtype(), first.device())
                           : Tensor::full(shape, 0, first.dtype(), first.device());
  for (int64_t i = 0; i < std::ssize(rows); ++i)
    table.slice(i, i + 1).copy_from(rows[size_t(i)].reshape({1, shape[1], shape[2]}));
  return table;
}

}  // namespace

void WindowBatch::add(const MicroBatch& micro_batch, Pass pass, Run run) {
  pass.batch = this;
  const auto run_part = [this, run = std::move(run)](const MicroBatch& part, const Pass& own_pass) {
    const RehearsalScope decide(*this);
    run(part, own_pass);
  };
  if (!ranks_ && parts_.empty() && micro_batch.ends_window) return run_part(micro_batch, pass);
  check(!Profile::current(),
        "micro-batches whose BatchNorms see the window take turns, which a profile cannot follow: "
        "expected no profile");
  const MicroBatch own = copy_of(micro_batch);
  if (own.indices.defined()) pass.samples = own.indices;
  parts_.push_back(std::make_unique<Activity>([=] { run_part(own, pass); }));
  resume(parts_.size() - 1);
}

void WindowBatch::resume(size_t part) {
  running_ = part;
  parts_[part]->resume();
}

void WindowBatch::finish() {
  if (ranks_ && parts_.empty()) return follow_others();
  while (!own_.empty()) {
    check(own_.size() == parts_.size(),
          "{} of the {} micro-batches of a window come to a BatchNorm: expected all", own_.size(),
          parts_.size());
    for (size_t part = 0; part < parts_.size(); ++part) resume(part);
    of_all_.reset();
  }
  size_t nothing = 0;
  if (has_idle_) ranks_->broadcast(&nothing, sizeof nothing, 0);
}

// By all ranks at once.
void WindowBatch::count_parts() {
  most_ = 0;
  for (const int64_t parts : ranks_->all_of(std::ssize(parts_))) {
    most_ = std::max(most_, parts);
    has_idle_ = has_idle_ || parts == 0;
  }
}

// What all have brought to this meeting, in their order.
Tensor WindowBatch::of_parts() {
  const std::vector<Tensor> own = std::exchange(own_, {});
  return ranks_ ? of_ranks(own) : table_of(own, std::ssize(own));
}

Tensor WindowBatch::of_ranks(const std::vector<Tensor>& own) {
  const Device device = own.front().device();
  if (is_meta(device)) most_ = std::ssize(own);  // the first rank has most
  else if (most_ == 0) count_parts();
  const Tensor block = table_of(own, most_);
  const Tensor all =
      Tensor::empty({ranks_->count() * most_, block.size(1), block.size(2)}, block.dtype(), device);
  if (is_meta(device)) return all;
  size_t bytes = block.bytes();
  if (has_idle_) ranks_->broadcast(&bytes, sizeof bytes, 0);
  ranks_->gather(all.view().data, block.view().data, bytes);
  return all;
}

// A rank without micro-batches brings nothing to each meeting.
void WindowBatch::follow_others() {
  count_parts();
  for (;;) {
    size_t bytes = 0;
    ranks_->broadcast(&bytes, sizeof bytes, 0);
    if (bytes == 0) return;
    const std::vector<std::byte> nothing(bytes);
    std::vector<std::byte> all(bytes * size_t(ranks_->count()));
    ranks_->gather(all.data(), nothing.data(), bytes);
  }
}

Tensor WindowBatch::join(Sums sums, const void* norm, const Own& own, const OfAll& of_all) {
  OfNorm& known = norms_[norm];
  if (sums == Sums::dx_terms) {
    if (known.dx_terms.defined()) return known.dx_terms;
    if (!rehearsing()) return meet(own(), of_all);
    rehearsed_ = {norm, own(), of_all};
    end_rehearsal();
    return {};
  }
  if (!recomputing()) {
    const Tensor moments = meet(own(), of_all);
    if (running_ == 0) known.moments = moments, ++known.times;
    return moments;
  }
  check(known.times == 1,
        "a BatchNorm that sees the window is computed again, and has run {} times before: expected "
        "once in a forward, or no recomputation",
        known.times);
  of_segment_.push_back(norm);
  return known.moments;
}

// The first to go on computes what all need.
Tensor WindowBatch::meet(const Tensor& own, const OfAll& of_all) {
  check(own_.empty() || own_.front().shape() == own.shape(),
        "micro-batches of a window come to BatchNorms with sums {} and {}: expected the same norm",
        own_.empty() ? Shape() : own_.front().shape(), own.shape());
  own_.push_back(own);
  if (!parts_.empty()) parts_[running_]->suspend();
  if (running_ == 0) of_all_ = of_all(of_parts());
  return of_all_;
}

bool WindowBatch::is_one() {
  return !std::exchange(was_in_vain_, false) &&
         std::ranges::any_of(of_segment_,
                             [&](const void* norm) { return !norms_[norm].dx_terms.defined(); });
}

// A norm below which nothing wants a gradient has not stopped the rehearsal.
void WindowBatch::wait() {
  was_in_vain_ = !rehearsed_;
  if (was_in_vain_) return;
  const Rehearsed now = *std::exchange(rehearsed_, {});
  norms_[now.norm].dx_terms = meet(now.own, now.of_all);
}

}  // namespace accrue
