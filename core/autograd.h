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

// Which convolutions keep their weights, in the form that they multiply by, for all micro-batches
// of a window: those where making that form takes a good part of the time, all, or none.
enum class Pack { where_it_pays, on, off };

namespace detail {

// Forms of a parameter's value that ops multiply by (kernels/detail/conv_products.h), kept for the
// next micro-batch until the value changes. Threads that predict with one model share them.
class PackedForms {
 public:
  explicit PackedForms(Pack keep) : keep_(keep) {}

  Pack keep() const { return keep_; }
  // The form under this key. If there is none yet, make() makes it: without the lock, because it
  // runs kernels, so that of several threads at once one form is kept, and the same for all.
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

// The gradient side of a tensor. Its one flag, `fresh`, is per tensor and never global: fan-out,
// shared weights and accumulation over micro-batches are then one mechanism (see claim_grad).
class Variable {
 public:
  Shape shape;
  DType dtype = DType::f32;
  Device device = Device::cpu;
  // Undefined until the first claim, unless bound (parameters are bound to their arena).
  Tensor grad;
  // True until the first claim after zero_grad(); until then the elements of `grad` mean nothing.
  bool fresh = true;
  // Whose sum `grad` belongs to, unless it is fresh (GradHook::sum).
  const void* grad_of = nullptr;
  // A frozen variable refuses claims.
  bool frozen = false;
  // A copy of the value in 16 bits, which ops read (core/parameters.h); undefined if there is none.
  Tensor copy;
  // Null: no packed form is kept.
  std::unique_ptr<PackedForms> packed;
  // The op this tensor came from; null for a leaf.
  std::shared_ptr<Node> producer;
};

// The way back from an op to one of its inputs: it leads to the input's gradient and does not hold
// its value. Backward closures capture edges, so that a value lives only as long as somebody needs
// it.
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

// The backward of one recorded op. dy is the gradient of its output. Nobody else reads it, so a
// backward may write over it.
using Backward = std::function<void(Tensor& dy)>;

// Makes y differentiable with respect to `inputs`, unless none of them wants a gradient or
// NoGrad is in force. The closure must not capture y itself (a cycle), only y.saved(), and of each
// other tensor that it reads x.saved(), which notices that somebody has written over it meanwhile.
void record(std::string_view op, Tensor& y, std::span<const Edge> inputs, Backward backward);
inline void record(std::string_view op, Tensor& y, std::initializer_list<Edge> inputs,
                   Backward backward) {
  record(op, y, std::span(inputs.begin(), inputs.size()), std::move(backward));
}

// How much a loss counts beside others: the number of samples, pixels or tokens that it is a mean
// over. Where the device alone knows it, that is a number there, f64, in place of the host's.
struct LossWeight {
  double on_host = 0;
  View on_device = {};
};

// How the backward of a loss begins: with dloss, if that is defined; else with
//   dloss = scale * weight / of       and, if there are sums,
//   loss_sum = loss * weight + beta * loss_sum,     weight_sum = weight + beta * weight_sum
// of numbers on the loss's device that the host does not know. The loss's own kernel computes them
// at no cost; a kernel for each number would cost a launch.
struct LossSeed {
  View dloss = {};
  View scale = {};  // f64
  LossWeight weight = {};
  double of = 1;
  View loss = {}, loss_sum = {}, weight_sum = {};  // the sums f64
  float beta = 0;
};

// record() for an op whose output is a loss. Where the backward gets a target for any input, its
// kernels have to do all that the seed says, once.
using LossBackward = std::function<void(const LossSeed& seed)>;
void record_loss(std::string_view op, Tensor& loss, std::initializer_list<Edge> inputs,
                 LossBackward backward);
// True if backward() can begin at this loss with a LossSeed.
bool takes_seed(const Tensor& loss);

// backward() calls this at most once per leaf and pass, when every op that adds to the leaf's
// gradient has done so. The hook may use `leaf.grad` and drop it.
struct GradHook {
  enum class When {
    kernel,  // after the last kernel that writes it; its op may still read the leaf's value
    op       // after the last op that differentiates the leaf: its value may be overwritten
  } when = When::kernel;
  std::function<void(Variable& leaf)> complete = {};
  // Whose sum the gradients of leaves join, such as a window's; null: the caller's own. Claiming a
  // gradient that belongs to another sum throws Error.
  const void* sum = nullptr;
};

}  // namespace detail

// Adds seed * dloss/dx to the gradient of every leaf x that loss depends on, newest op first,
// and releases each op's saved tensors and each intermediate gradient as soon as it has been used.
// Throws Error unless loss has one element and a graph that was not used before.
void backward(const Tensor& loss, double seed = 1.0, const detail::GradHook& hook = {});
// Takes the seed as a tensor on the device of the loss, which backward may write over.
void backward(const Tensor& loss, Tensor seed, const detail::GradHook& hook = {});
// Takes the seed as a description of it; takes_seed(loss) must be true.
void backward(const Tensor& loss, const detail::LossSeed& seed, const detail::GradHook& hook = {});

namespace detail {

using Segment = std::function<Tensor(const std::vector<Tensor>& inputs)>;
using LastOp = std::function<Tensor(Tensor x)>;

}  // namespace detail

// y = segment(inputs). Only the inputs are kept: backward runs the segment a second time, records
// it and differentiates that (Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016).
// The gradients are the same, bit for bit, and cost another forward. The second run must give the
// same result and must have no other effect: an update like that of BatchNorm's running statistics
// is left out while recomputing().
Tensor recompute(detail::Segment segment, const std::vector<Tensor>& inputs);
// Does the same for y = last(segment(inputs)), where `last` is the SegmentEnd.
Tensor recompute(detail::Segment segment, const std::vector<Tensor>& inputs, detail::LastOp last);

namespace detail {

// True while this thread runs a segment for the second time.
bool recomputing();

// While it lives, ops end the innermost segment: their results are read by each other, and the last
// one is the segment's. Nobody reads them when the segment runs for the second time, so an op whose
// backward does not read its result either, such as a norm or a product, does not compute it.
// With false, ops do not end a segment, or not yet: their results are kept by those that do.
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

// Decides whether the backward of a segment is rehearsed. In a rehearsal the ops of the segment are
// differentiated as always, but no variable outside of it gets a gradient, until an op has found
// what it was for and calls end_rehearsal(): a norm, for example, its part of a sum over several
// graphs. Then the segment is dropped and runs again, so that nothing but its inputs is kept till
// that sum is known.
class SegmentRehearsal {
 public:
  virtual ~SegmentRehearsal() = default;
  // Called before a segment runs again in backward, and when it has: true if this one is a
  // rehearsal.
  virtual void begin() = 0;
  virtual bool is_one() = 0;
  // Called after a rehearsal, before the segment runs once more.
  virtual void wait() = 0;
};
// While alive, these decide on this thread.
class RehearsalScope {
 public:
  explicit RehearsalScope(SegmentRehearsal& decide);
  ~RehearsalScope();
  RehearsalScope(const RehearsalScope&) = delete;
  RehearsalScope& operator=(const RehearsalScope&) = delete;

 private:
  SegmentRehearsal* previous_;
};
// Rehearses the backward of a whole graph: no leaf gets a gradient. The seed must add nothing up.
void rehearse_backward(const Tensor& loss, const LossSeed& seed);
void rehearse_backward(const Tensor& loss, Tensor seed);
// True while this thread rehearses. For backwards.
bool rehearsing();
// No op of the segment is differentiated any more.
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
