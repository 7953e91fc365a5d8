#pragma once

#include <array>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "core/rule.h"
#include "core/tensor.h"

namespace accrue {

namespace detail {

struct Node;
enum class Recording : char;

}  // namespace detail

// The convolutions that keep their packed weights, the form that they multiply by, for all
// micro-batches of a window: the ones whose packing takes a good part of their time, all, or none.
enum class Pack { where_it_pays, on, off };

namespace detail {

// The packed forms of a parameter's value (kernels/detail/conv_products.h), kept for the next
// micro-batches until the value changes. Threads that predict with one model share them.
class PackedForms {
 public:
  explicit PackedForms(Pack keep) : keep_(keep) {}

  Pack keep() const { return keep_; }
  // Returns the form under this key, which make() computes the first time. make() runs kernels and
  // therefore runs without the lock. If several threads make the form at once, all of them get the
  // one that is stored first.
  template <class Make>
  Tensor form(int64_t key, const Make& make) {
    {
      const std::lock_guard lock(mutex_);
      if (const auto found = forms_.find(key); found != forms_.end()) return found->second;
    }
    Tensor made = make();
    const std::lock_guard lock(mutex_);
    return forms_.try_emplace(key, std::move(made)).first->second;
  }
  void drop() {
    const std::lock_guard lock(mutex_);
    forms_.clear();
  }

 private:
  const Pack keep_;
  std::mutex mutex_;
  std::map<int64_t, Tensor> forms_;
};

// The gradient side of a tensor. The flag `fresh` is per tensor and never global, so one mechanism,
// claim_grad(), serves fan-out, shared weights and accumulation over micro-batches.
class Variable {
 public:
  Shape shape;
  DType dtype = DType::f32;
  Device device = Device::cpu;
  // Undefined until the first claim, unless bound (parameters are bound to their arena).
  Tensor grad;
  // True until the first claim after zero_grad(); until then the elements of `grad` mean nothing.
  bool fresh = true;
  // Identifies the sum that `grad` is part of (GradHook::sum), unless it is fresh.
  const void* grad_of = nullptr;
  // A frozen variable refuses claims.
  bool frozen = false;
  // A copy of the value in 16 bits, which ops read (core/parameters.h); undefined if there is none.
  Tensor copy;
  // The packed forms of the value; null if none are kept.
  std::unique_ptr<PackedForms> packed;
  // The op this tensor came from; null for a leaf.
  std::shared_ptr<Node> producer;
};

// The link from an op back to one of its inputs. It refers to the input's gradient and does not
// keep the input's value alive: a backward closure that captures edges keeps no memory that it does
// not read.
class Edge {
 public:
  Edge() = default;
  Edge(const Tensor& x) : variable_(x.variable()), shape_(x.defined() ? x.shape() : Shape()) {}

  bool wants_grad() const { return variable_ && !variable_->frozen; }
  const std::shared_ptr<Variable>& variable() const { return variable_; }
  const Shape& shape() const { return shape_; }

 private:
  std::shared_ptr<Variable> variable_;
  Shape shape_;
};

// The backward of one recorded op. dy is the gradient of the op's output. No other code reads dy,
// so a backward may write over it.
using Backward = std::function<void(Tensor& dy)>;

// Makes y differentiable with respect to `inputs`, unless none of them wants a gradient or
// NoGrad is in force. They must be the edges of all operands that have gradients, wanted or not: by
// them the first run of a segment (core/recompute_several.h) knows which results have gradients.
// For each tensor x that it reads, the closure must capture x.saved(), which detects that x was
// overwritten in the meantime. It must not capture y itself, which would be a cycle, only
// y.saved().
void record(std::string_view op, Tensor& y, std::span<const Edge> inputs, Backward backward);
inline void record(std::string_view op, Tensor& y, std::initializer_list<Edge> inputs,
                   Backward backward) {
  record(op, y, std::span(inputs.begin(), inputs.size()), std::move(backward));
}

// The weight of a loss in a sum of losses: the number of samples, pixels or tokens that it is a
// mean over. `on_device`, f64, replaces `on_host` where only the device knows the number.
struct LossWeight {
  double on_host = 0;
  View on_device = {};
};

// The start of a loss's backward. If dloss is defined, it is the gradient of the loss. Otherwise
// the loss's own kernel computes
//   dloss = scale * weight / of
// and, if the sums are defined,
//   loss_sum = loss * weight + beta * loss_sum,     weight_sum = weight + beta * weight_sum
// from numbers on the loss's device that the host does not know. This costs nothing there, while a
// kernel for each number would cost a launch.
struct LossSeed {
  View dloss = {};
  View scale = {};  // f64
  LossWeight weight = {};
  double of = 1;
  View loss = {}, loss_sum = {}, weight_sum = {};  // the sums f64
  float beta = 0;
};

// record() for an op whose output is a loss. If the backward gets a target for any input, its
// kernels must compute everything that the seed describes, exactly once.
using LossBackward = std::function<void(const LossSeed& seed)>;
void record_loss(std::string_view op, Tensor& loss, std::initializer_list<Edge> inputs,
                 LossBackward backward);
// True if backward() can start from this loss with a LossSeed.
bool takes_seed(const Tensor& loss);

// backward() calls this at most once per leaf and pass, after the last op that adds to the leaf's
// gradient. The hook may use `leaf.grad` and drop it.
struct GradHook {
  enum class When {
    kernel,  // after the last kernel that writes it; its op may still read the leaf's value
    op       // after the last op that differentiates the leaf: its value may be overwritten
  } when = When::kernel;
  std::function<void(Variable& leaf)> complete = {};
  // Identifies the sum that the gradients of leaves are added to, such as a window; null for the
  // caller's own sum. Claiming a gradient that belongs to another sum throws Error.
  const void* sum = nullptr;
};

}  // namespace detail

// Adds seed * dloss/dx to the gradient of every leaf x that loss depends on. It visits the newest
// op first, and releases each op's saved tensors and each intermediate gradient as soon as they
// have been used. Throws Error unless loss has one element and a graph that was not used before.
void backward(const Tensor& loss, double seed = 1.0, const detail::GradHook& hook = {});
// Takes the seed as a tensor on the loss's device. Backward may write over that tensor.
void backward(const Tensor& loss, Tensor seed, const detail::GradHook& hook = {});
// Takes a description of the seed; takes_seed(loss) must be true.
void backward(const Tensor& loss, const detail::LossSeed& seed, const detail::GradHook& hook = {});

namespace detail {

using Segment = std::function<Tensor(const std::vector<Tensor>& inputs)>;
using LastOp = std::function<Tensor(Tensor x)>;

}  // namespace detail

// y = segment(inputs). Only the inputs are kept. Backward runs the segment a second time, records
// this run and differentiates it (Chen et al., "Training Deep Nets with Sublinear Memory Cost",
// 2016). The gradients have the same bits and cost another forward. The second run must give the
// same result and must have no other effect: while recomputing(), BatchNorm, for example, does not
// update its running statistics.
Tensor recompute(detail::Segment segment, const std::vector<Tensor>& inputs);
// Does the same for y = last(segment(inputs)), where `last` is the SegmentEnd.
Tensor recompute(detail::Segment segment, const std::vector<Tensor>& inputs, detail::LastOp last);

namespace detail {

// True while this thread runs a segment for the second time.
bool recomputing();

// Marks the ops that run during its lifetime as the end of the innermost segment: the last result
// is the segment's, and only ops of the end read the others. When the segment runs for the second
// time, no one reads these results. An op whose backward does not read its result, such as a norm
// or a product, then skips computing it. With false, the ops do not belong to the end, and their
// results are needed.
class SegmentEnd {
 public:
  explicit SegmentEnd(bool here = true);
  ~SegmentEnd();
  SegmentEnd(const SegmentEnd&) = delete;
  SegmentEnd& operator=(const SegmentEnd&) = delete;

 private:
  const bool previous_;
};
// True at the end of a segment that this thread runs for the second time.
bool result_is_unread();

// Decides whether the backward of a segment is rehearsed. A rehearsal differentiates the ops of the
// segment as usual, but gives no gradient to variables outside of the segment. It stops when an op
// has found the number that the rehearsal is for and calls end_rehearsal(): a norm, for example,
// finds its part of a sum over several graphs. Then the segment is dropped, and it runs again once
// that sum is known. Meanwhile only its inputs are kept.
class SegmentRehearsal {
 public:
  virtual ~SegmentRehearsal() = default;
  // Backward calls begin() before it runs a segment again, and is_one() after that. is_one()
  // returns true if this run is a rehearsal.
  virtual void begin() = 0;
  virtual bool is_one() = 0;
  // Backward calls this after a rehearsal, before the segment runs once more.
  virtual void wait() = 0;
};
// While alive, `decide` decides about the segments of this thread.
class RehearsalScope {
 public:
  explicit RehearsalScope(SegmentRehearsal& decide);
  ~RehearsalScope();
  RehearsalScope(const RehearsalScope&) = delete;
  RehearsalScope& operator=(const RehearsalScope&) = delete;

 private:
  SegmentRehearsal* previous_;
};
// Rehearses the backward of a whole graph: no leaf gets a gradient. The seed must have no sums.
void rehearse_backward(const Tensor& loss, const LossSeed& seed);
void rehearse_backward(const Tensor& loss, Tensor seed);
// True while this thread rehearses. Backwards of ops ask this.
bool rehearsing();
// Ends the rehearsal: the remaining ops of the segment are not differentiated.
void end_rehearsal();

}  // namespace detail

// Returns a leaf that wants a gradient: a copy of the handle x. The gradient appears in grad(x).
Tensor require_grad(const Tensor& x);
// The gradient of a leaf. Throws Error if there is none (never claimed since zero_grad()).
Tensor grad(const Tensor& x);
// Marks the gradient fresh; touches no memory.
void zero_grad(const Tensor& x);

// While alive, ops on this thread record nothing.
class NoGrad {
 public:
  NoGrad();
  ~NoGrad();
  NoGrad(const NoGrad&) = delete;
  NoGrad& operator=(const NoGrad&) = delete;

 private:
  detail::Recording previous_;
};

}  // namespace accrue
