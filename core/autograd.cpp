#include "core/autograd.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "core/inside.h"
#include "core/profile.h"
#include "core/recompute_several.h"

namespace accrue {

enum class detail::Recording : char {
  on,
  off,
  // a segment's first run: finds the variables that it depends on and the results that depend on
  // them, and records no graph
  inputs_only
};

struct detail::Node {
  std::string op;
  Label label;        // of the memory of its output and of the output's gradient
  uint64_t sequence;  // creation order, which is a topological order
  std::vector<std::shared_ptr<Variable>> inputs;
  Backward backward;        // empty once used
  LossBackward begin = {};  // for a loss: `backward`, but from a seed
};

namespace {

using Variables = std::vector<std::shared_ptr<Variable>>;

// Sets a value and puts the old one back at the end of the scope.
template <class T>
class Restored {
 public:
  Restored(T& place, T value) : place_(place), before_(std::exchange(place, std::move(value))) {}
  ~Restored() { place_ = std::move(before_); }
  Restored(const Restored&) = delete;
  Restored& operator=(const Restored&) = delete;

 private:
  T& place_;
  T before_;
};

// The rehearsal of a graph's backward, which leaves out everything older than the graph.
struct Rehearsal {
  uint64_t first;  // of the graph's nodes: its sequence number
  bool has_ended = false;

  bool leaves_out(const Variable& variable) const {
    return !variable.producer || variable.producer->sequence < first;
  }
};

class PendingLeaves;

// The thread's settings for the ops that it runs, made by the calls around them.
struct Context {
  Recording recording = Recording::on;
  Variables* inputs_of_segment = nullptr;  // collects them with Recording::inputs_only
  bool is_second_run = false;              // a segment runs for the second time
  bool end_is_unread = false;              // the running segment's end has unread results
  bool is_unread = false;                  // what result_is_unread() returns
  SegmentRehearsal* segments = nullptr;    // decides which segments are rehearsed
  Rehearsal* rehearsal = nullptr;
  const void* sum = nullptr;  // GradHook::sum
  PendingLeaves* pending_leaves = nullptr;
};
thread_local constinit Context context;

std::atomic<uint64_t> sequence_counter{0};

std::shared_ptr<Variable> make_variable(const Tensor& x) {
  auto variable = std::make_shared<Variable>();
  variable->shape = x.shape();
  variable->dtype = x.dtype();
  variable->device = x.device();
  return variable;
}

void append_unique(Variables& list, const std::shared_ptr<Variable>& variable) {
  if (std::ranges::find(list, variable) == list.end()) list.push_back(variable);
}

std::shared_ptr<Node> make_node(std::string_view op, Variables inputs, Backward backward) {
  auto node = std::make_shared<Node>();
  node->op = op;
  node->label = MemoryScope::label().empty() ? Label(op) : MemoryScope::label();
  node->sequence = sequence_counter++;
  node->inputs = std::move(inputs);
  node->backward = std::move(backward);
  return node;
}

void attach_node(std::string_view op, Tensor& y, Variables inputs, Backward backward) {
  auto variable = make_variable(y);
  variable->producer = make_node(op, std::move(inputs), std::move(backward));
  y.set_variable(std::move(variable));
}

// In a segment's first run these mark the results that depend on a variable. A result and its
// reshape have one mark.
const std::shared_ptr<Node>& producer_of_marks() {
  static const auto node = std::make_shared<Node>();
  return node;
}

bool is_mark(const std::shared_ptr<Variable>& variable) {
  return variable && variable->producer == producer_of_marks();
}

std::shared_ptr<Variable> make_mark() {
  auto mark = std::make_shared<Variable>();
  mark->frozen = true;
  mark->producer = producer_of_marks();
  return mark;
}

// All op outputs not older than `oldest` that `roots` depend on, newest first.
Variables graph_of(const Variables& roots, uint64_t oldest) {
  Variables found = roots;
  std::unordered_set<const Variable*> seen;
  for (const auto& root : roots) seen.insert(root.get());
  for (size_t i = 0; i < found.size(); ++i) {
    const std::shared_ptr<Node> node = found[i]->producer;
    check(node->backward != nullptr,
          "backward() reached '{}' a second time, after its saved tensors were released; "
          "run the forward again",
          node->op);
    for (const auto& input : node->inputs) {
      const bool inside = input->producer && input->producer->sequence >= oldest;
      if (inside && seen.insert(input.get()).second) found.push_back(input);
    }
  }
  std::ranges::sort(found, std::greater(),
                    [](const auto& variable) { return variable->producer->sequence; });
  return found;
}

// Counts, for a hook, how many edges still lead to each leaf.
class PendingLeaves {
 public:
  explicit PendingLeaves(const GradHook& hook) : hook_(hook) {}

  // Call this before the ops of a graph run. The ops of a segment replace the op that stands for
  // it.
  void add(const Variables& graph) {
    for (const auto& output : graph)
      for (const auto& input : output->producer->inputs)
        if (!input->producer) ++pending_[input.get()];
    if (node_) finish_node(*node_);
  }

  // The result restores the outer op at its destruction, if `node` belongs to a segment.
  [[nodiscard]] Restored<Node*> start_node(Node& node) { return {node_, &node}; }

  // A claim shows that the kernel of the claim before it has been launched, unless both claims are
  // for the same kernel.
  void claim(const std::shared_ptr<Variable>& variable, bool same_kernel) {
    if (!same_kernel) finish_claims();
    if (!variable->producer) claimed_.push_back(variable);
  }

  void finish_node(Node& node) {
    finish_claims();
    for (const auto& input : std::exchange(node.inputs, {}))
      if (!input->producer) count_down(input);
    for (const auto& leaf : std::exchange(after_op_, {})) complete(*leaf);
  }

 private:
  void finish_claims() {
    for (const auto& leaf : std::exchange(claimed_, {})) {
      const auto edge = std::ranges::find(node_->inputs, leaf);
      if (edge == node_->inputs.end()) continue;
      node_->inputs.erase(edge);
      count_down(leaf);
    }
  }

  void count_down(const std::shared_ptr<Variable>& leaf) {
    if (--pending_.at(leaf.get()) > 0) return;
    if (hook_.when == GradHook::When::kernel) complete(*leaf);
    else after_op_.push_back(leaf);
  }

  void complete(Variable& leaf) {
    const Profile::OpScope of_no_op("");
    if (!leaf.fresh) hook_.complete(leaf);
  }

  const GradHook& hook_;
  std::unordered_map<const Variable*, int64_t> pending_;
  Node* node_ = nullptr;
  Variables claimed_;
  Variables after_op_;
};

void begin_from(Variable& output, Tensor gradient) {
  output.grad = std::move(gradient);
  output.fresh = false;
  output.grad_of = context.sum;
}

// Runs a graph, from the gradients that some of its outputs have.
void run_backward(Variables graph) {
  if (context.pending_leaves) context.pending_leaves->add(graph);
  for (auto& output : graph) {
    Node& node = *output->producer;
    const MemoryScope scope(node.label);
    const Profile::OpScope op(node.op);
    const Backward run = std::exchange(node.backward, nullptr);
    if (context.pending_leaves) {
      const auto outer = context.pending_leaves->start_node(node);
      if (!output->fresh) run(output->grad);
      context.pending_leaves->finish_node(node);
    } else if (!output->fresh && !(context.rehearsal && context.rehearsal->has_ended)) {
      run(output->grad);
    }
    output->grad.reset();
    node.inputs.clear();
    output.reset();
  }
}

// Runs a graph, but leaves out everything older than node number `first`.
void rehearse(Variables graph, uint64_t first) {
  Rehearsal now{first};
  const Restored rehearsing(context.rehearsal, &now);
  const Restored counting_none(context.pending_leaves, static_cast<PendingLeaves*>(nullptr));
  run_backward(std::move(graph));
}

// Backward may write over its first gradient, so a rehearsal gets a copy.
Tensor copy_of(const Tensor& dy) {
  Tensor copy = Tensor::empty(dy.shape(), dy.dtype(), dy.device());
  copy.copy_from(dy);
  return copy;
}

std::optional<GradTarget> claim(const Edge& x, bool same_kernel) {
  if (!x.wants_grad()) return std::nullopt;
  Variable& variable = *x.variable();
  if (context.rehearsal && context.rehearsal->leaves_out(variable)) return std::nullopt;
  check(variable.fresh || variable.grad_of == context.sum,
        "{} would be added to a gradient {} that {}: call zero_grad() before, on the parameters or "
        "the tensor, or step the window",
        context.sum ? "a window's micro-batch" : "backward()", variable.shape,
        context.sum ? "is not of this window" : "a window is adding up");
  variable.grad_of = context.sum;
  if (context.pending_leaves) context.pending_leaves->claim(x.variable(), same_kernel);
  if (!variable.grad.defined()) {
    const MemoryScope scope(variable.producer ? variable.producer->label : MemoryScope::label());
    const auto category = variable.producer ? Category::activations : Category::gradients;
    variable.grad = Tensor::empty(variable.shape, variable.dtype, variable.device, category);
  }
  const float beta = std::exchange(variable.fresh, false) ? 0.0f : 1.0f;
  return GradTarget{variable.grad.reshape(x.shape()).view(), beta};
}

std::vector<int64_t> without_ones(const Shape& shape) {
  std::vector<int64_t> sizes(shape.sizes().begin(), shape.sizes().end());
  std::erase(sizes, 1);
  return sizes;
}

// True if the shapes are one but for sizes of 1, or are rows of one width, however these are
// counted: then a reshape leads from one to the other. Others, such as a transposed matrix, may
// have as many elements.
bool are_one_layout(const Shape& a, const Shape& b) {
  if (a == b) return true;
  if (a.numel() != b.numel() || a.rank() == 0 || b.rank() == 0) return false;
  return a[-1] == b[-1] || without_ones(a) == without_ones(b);
}

void check_scalar(const Tensor& loss) {
  check(loss.defined() && loss.numel() == 1, "backward() needs a loss of one element, got shape {}",
        loss.shape());
}

const std::shared_ptr<Variable>& root_of(const Tensor& loss) {
  check(loss.variable() && loss.variable()->producer,
        "backward() of a loss that depends on nothing differentiable (no parameter that wants a "
        "gradient, or NoGrad was in force)");
  return loss.variable();
}

void begin_with(const Tensor& loss, const LossSeed& seed) {
  check(takes_seed(loss),
        "backward() with a LossSeed: expected the output of a loss op that wants a gradient");
  Node& op = *loss.variable()->producer;
  op.backward = [begin = std::move(op.begin), seed](Tensor&) { begin(seed); };
}

// The graph of a loss, and the thread's settings while its backward runs.
struct BackwardPass {
  BackwardPass(const Tensor& loss, const GradHook& hook)
      : graph(graph_of({root_of(loss)}, 0)),
        phase(Phase::backward, loss.variable()->producer->label),
        leaves(hook),
        counting(context.pending_leaves, hook.complete ? &leaves : nullptr),
        adding_to(context.sum, hook.sum) {}

  Variables graph;
  MemoryScope phase;
  PendingLeaves leaves;
  Restored<PendingLeaves*> counting;
  Restored<const void*> adding_to;
};

}  // namespace

std::optional<GradTarget> detail::claim_grad(const Edge& x) { return claim(x, false); }

std::pair<std::optional<GradTarget>, std::optional<GradTarget>> detail::claim_grads(const Edge& a,
                                                                                    const Edge& b) {
  const auto first = claim(a, false);
  return {first, claim(b, first.has_value())};
}

std::array<std::optional<GradTarget>, 3> detail::claim_grads(const Edge& a, const Edge& b,
                                                             const Edge& c) {
  const auto [first, second] = claim_grads(a, b);
  return {first, second, claim(c, first || second)};
}

void detail::offer_buffer(const Edge& x, const Tensor& buffer) {
  if (!x.wants_grad()) return;
  Variable& variable = *x.variable();
  if (context.rehearsal && context.rehearsal->leaves_out(variable)) return;
  const bool fits = are_one_layout(buffer.shape(), x.shape()) && buffer.dtype() == variable.dtype;
  if (variable.producer && !variable.grad.defined() && fits)
    variable.grad = buffer.detach().reshape(variable.shape);
}

std::optional<GradTarget> detail::claim_grad_over(const Edge& x, Tensor& dy) {
  offer_buffer(x, dy);
  return claim_grad(x);
}

void detail::record(std::string_view op, Tensor& y, std::span<const Edge> inputs,
                    Backward backward) {
  Profile::end_forward(op);
  if (context.recording == Recording::off) return;
  Variables wanted;
  for (const Edge& input : inputs)
    if (input.wants_grad()) wanted.push_back(input.variable());
  if (context.recording == Recording::inputs_only) {
    for (const auto& variable : wanted) append_unique(*context.inputs_of_segment, variable);
    const auto has_mark = [](const Edge& input) { return is_mark(input.variable()); };
    if (!wanted.empty() || std::ranges::any_of(inputs, has_mark)) y.set_variable(make_mark());
  } else if (!wanted.empty()) {
    attach_node(op, y, std::move(wanted), std::move(backward));
  }
}

void detail::record_loss(std::string_view op, Tensor& loss, std::initializer_list<Edge> inputs,
                         LossBackward backward) {
  // Both backwards share one closure, so that its saved tensors have one owner.
  const auto shared = std::make_shared<LossBackward>(std::move(backward));
  record(op, loss, inputs, [shared](Tensor& dloss) { (*shared)({.dloss = dloss.view()}); });
  if (loss.variable() && !is_mark(loss.variable()))
    loss.variable()->producer->begin = [shared](const LossSeed& seed) { (*shared)(seed); };
}

bool detail::takes_seed(const Tensor& loss) {
  const auto& producer = loss.variable() ? loss.variable()->producer : nullptr;
  const auto is_wanted = [](const auto& input) { return !input->frozen; };
  return producer && producer->backward && producer->begin &&
         std::ranges::any_of(producer->inputs, is_wanted);
}

void backward(const Tensor& loss, double seed, const GradHook& hook) {
  check(loss.defined(), "backward() of an undefined loss");
  backward(loss, Tensor::full(loss.shape(), seed, loss.dtype(), loss.device()), hook);
}

void backward(const Tensor& loss, Tensor seed, const GradHook& hook) {
  check_scalar(loss);
  check(seed.shape() == loss.shape() && seed.dtype() == loss.dtype() &&
            seed.device() == loss.device(),
        "the seed of backward() is {} {} on {}: expected {} {} on {}, as the loss is",
        name(seed.dtype()), seed.shape(), name(seed.device()), name(loss.dtype()), loss.shape(),
        name(loss.device()));
  BackwardPass pass(loss, hook);
  begin_from(*pass.graph.front(), std::move(seed));
  run_backward(std::move(pass.graph));
}

void backward(const Tensor& loss, const LossSeed& seed, const GradHook& hook) {
  check_scalar(loss);
  begin_with(loss, seed);
  BackwardPass pass(loss, hook);
  begin_from(*pass.graph.front(), {});
  run_backward(std::move(pass.graph));
}

void detail::rehearse_backward(const Tensor& loss, const LossSeed& seed) {
  check_scalar(loss);
  begin_with(loss, seed);
  rehearse_backward(loss, Tensor());
}

void detail::rehearse_backward(const Tensor& loss, Tensor seed) {
  check_scalar(loss);
  const GradHook none;
  BackwardPass pass(loss, none);
  begin_from(*pass.graph.front(), std::move(seed));
  rehearse(std::move(pass.graph), 0);
}

Tensor recompute(Segment segment, const std::vector<Tensor>& inputs, LastOp last) {
  return recompute(
      [segment = std::move(segment), last = std::move(last)](const std::vector<Tensor>& in) {
        Tensor x = segment(in);
        const SegmentEnd end;
        return last(std::move(x));
      },
      inputs);
}

Tensor recompute(Segment segment, const std::vector<Tensor>& inputs) {
  const auto of_one = [segment = std::move(segment)](const std::vector<Tensor>& in) {
    std::vector<Tensor> results;
    results.push_back(segment(in));
    return results;
  };
  return std::move(recompute_several(of_one, inputs).front());
}

namespace {

// A segment that backward runs again.
struct Again {
  SegmentOfSeveral segment;
  std::vector<Tensor> values;  // its inputs
  std::vector<Edge> edges;
  std::vector<size_t> results;    // the ones that have gradients
  std::vector<Tensor> gradients;  // of `results`, where backward reaches them
  std::vector<size_t> constants;  // results without gradients

  void differentiate();
};

std::vector<Tensor> run_segment(const SegmentOfSeveral& segment, const std::vector<Tensor>& inputs,
                                bool is_second) {
  const Restored not_yet(context.is_unread, false);
  const Restored of_this_segment(context.end_is_unread, is_second);
  return segment(inputs);
}

void Again::differentiate() {
  for (size_t i = 0; i < values.size(); ++i)
    if (edges[i].wants_grad()) values[i].set_variable(edges[i].variable());
  for (bool is_last = false; !is_last;) {
    const uint64_t first = sequence_counter;
    if (context.segments) context.segments->begin();
    std::vector<Tensor> again;
    {
      const Restored record_now(context.recording, Recording::on);
      const Restored once_more(context.is_second_run, true);
      again = run_segment(segment, values, true);
    }
    is_last = !(context.segments && context.segments->is_one());
    if (is_last) values.clear();
    for (const size_t i : constants)
      check(!again[i].variable(),
            "an op whose result {} depends on a variable has not told record() "
            "so in the first run of a segment: expected all edges, wanted or not",
            again[i].shape());
    Variables roots;
    for (size_t i = 0; i < results.size(); ++i) {
      const std::shared_ptr<Variable> root = again[results[i]].variable();
      if (!gradients[i].defined() || !root || !root->producer) continue;
      Tensor dy = is_last ? std::exchange(gradients[i], {}) : copy_of(gradients[i]);
      begin_from(*root, dy.reshape(root->shape));
      roots.push_back(root);
    }
    again.clear();
    if (roots.empty()) return;
    Variables graph = graph_of(roots, first);
    roots.clear();
    if (is_last) {
      run_backward(std::move(graph));
    } else {
      rehearse(std::move(graph), first);
      context.segments->wait();
    }
  }
}

}  // namespace

std::vector<Tensor> detail::recompute_several(SegmentOfSeveral segment,
                                              const std::vector<Tensor>& inputs) {
  if (context.recording != Recording::on) return run_segment(segment, inputs, false);
  Variables wanted;
  std::vector<Tensor> ys;
  {
    const Restored probing(context.recording, Recording::inputs_only);
    const Restored collecting(context.inputs_of_segment, &wanted);
    ys = run_segment(segment, inputs, false);
  }
  Variables marks;
  std::vector<size_t> results, constants, first_of;  // each result's first with the same mark
  for (const Tensor& y : ys) {
    const bool has_gradient = is_mark(y.variable());
    marks.push_back(has_gradient ? y.variable() : nullptr);
    first_of.push_back(size_t(std::ranges::find(marks, marks.back()) - marks.begin()));
    if (has_gradient && first_of.back() + 1 == marks.size()) results.push_back(marks.size() - 1);
    if (!y.variable()) constants.push_back(marks.size() - 1);
  }
  // A result that is alone has whatever gradient there is.
  if (ys.size() == 1 && !constants.empty() && !wanted.empty()) std::swap(results, constants);
  // The segment computed nothing, or nothing that is differentiable.
  if (results.empty()) return ys;

  const auto again = std::make_shared<Again>();
  again->segment = std::move(segment);
  for (const Tensor& input : inputs) again->values.push_back(input.saved());
  again->edges.assign(inputs.begin(), inputs.end());
  again->results = results;
  again->constants = constants;
  again->gradients.resize(results.size());
  if (results.size() == 1) {
    attach_node("recompute", ys[results[0]], std::move(wanted), [again](Tensor& dy) {
      again->gradients[0] = std::exchange(dy, {});
      again->differentiate();
    });
  } else {
    // The segment's node is that of a variable without elements. The results' nodes are newer: they
    // run before it.
    const auto all = std::make_shared<Variable>();
    all->producer =
        make_node("recompute", std::move(wanted), [again](Tensor&) { again->differentiate(); });
    for (size_t i = 0; i < results.size(); ++i)
      attach_node("recompute", ys[results[i]], {all}, [again, all, i](Tensor& dy) {
        again->gradients[i] = std::exchange(dy, {});
        all->fresh = false;
      });
  }
  for (size_t i = 0; i < ys.size(); ++i)
    if (marks[i]) ys[i].set_variable(ys[first_of[i]].variable());
  return ys;
}

RehearsalScope::RehearsalScope(SegmentRehearsal& decide)
    : previous_(std::exchange(context.segments, &decide)) {}
RehearsalScope::~RehearsalScope() { context.segments = previous_; }
bool detail::rehearsing() { return context.rehearsal != nullptr; }
void detail::end_rehearsal() {
  if (context.rehearsal) context.rehearsal->has_ended = true;
}

bool detail::recomputing() { return context.is_second_run; }

SegmentEnd::SegmentEnd(bool here)
    : previous_(std::exchange(context.is_unread, here && context.end_is_unread)) {}
SegmentEnd::~SegmentEnd() { context.is_unread = previous_; }
bool detail::result_is_unread() { return context.is_unread; }

Tensor require_grad(const Tensor& x) {
  Tensor leaf = x.detach();
  leaf.set_variable(make_variable(x));
  return leaf;
}

Tensor grad(const Tensor& x) {
  check(x.variable() && x.variable()->grad.defined() && !x.variable()->fresh,
        "a tensor of shape {} has no gradient: backward() did not reach it", x.shape());
  return x.variable()->grad.reshape(x.shape());
}

void zero_grad(const Tensor& x) {
  if (x.variable()) x.variable()->fresh = true;
}

NoGrad::NoGrad() : previous_(std::exchange(context.recording, Recording::off)) {}
NoGrad::~NoGrad() { context.recording = previous_; }

}  // namespace accrue
