#include "core/autograd.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <unordered_set>
#include <vector>

namespace accrue {

struct Node {
  std::string op;
  uint64_t sequence;  // creation order, which is a topological order
  std::vector<std::shared_ptr<Variable>> inputs;
  Backward backward;  // empty once used
};

namespace {

thread_local bool recording = true;

uint64_t next_sequence() {
  static std::atomic<uint64_t> counter{0};
  return counter++;
}

std::shared_ptr<Variable> make_variable(const Tensor& x) {
  auto variable = std::make_shared<Variable>();
  variable->shape = x.shape();
  variable->dtype = x.dtype();
  variable->device = x.device();
  return variable;
}

// Every op output that `root` depends on, newest first.
std::vector<std::shared_ptr<Variable>> graph_of(const std::shared_ptr<Variable>& root) {
  std::vector<std::shared_ptr<Variable>> found{root};
  std::unordered_set<const Variable*> seen{root.get()};
  for (size_t i = 0; i < found.size(); ++i) {
    const std::shared_ptr<Node> node = found[i]->producer;
    check(node->backward != nullptr,
          "backward() came a second time to '{}', whose saved tensors are released; "
          "run the forward again",
          node->op);
    for (const auto& input : node->inputs)
      if (input->producer && seen.insert(input.get()).second) found.push_back(input);
  }
  std::ranges::sort(found, std::greater(),
                    [](const auto& variable) { return variable->producer->sequence; });
  return found;
}

}  // namespace

std::optional<GradTarget> claim_grad(const Edge& x) {
  if (!x.wants_grad()) return std::nullopt;
  Variable& variable = *x.variable();
  if (!variable.grad.defined()) {
    const auto category = variable.producer ? Category::activations : Category::gradients;
    variable.grad = Tensor::empty(variable.shape, variable.dtype, variable.device, category);
  }
  const float beta = std::exchange(variable.fresh, false) ? 0.0f : 1.0f;
  return GradTarget{variable.grad.reshape(x.shape()).view(), beta};
}

std::optional<GradTarget> claim_grad_over(const Edge& x, Tensor& dy) {
  if (x.wants_grad()) {
    Variable& variable = *x.variable();
    const bool fits = dy.numel() == variable.shape.numel() && dy.dtype() == variable.dtype;
    if (variable.producer && !variable.grad.defined() && fits)
      variable.grad = dy.reshape(variable.shape);
  }
  return claim_grad(x);
}

void record(std::string_view op, Tensor& y, std::span<const Edge> inputs, Backward backward) {
  if (!recording) return;
  auto node = std::make_shared<Node>();
  for (const Edge& input : inputs)
    if (input.wants_grad()) node->inputs.push_back(input.variable());
  if (node->inputs.empty()) return;
  node->op = op;
  node->sequence = next_sequence();
  node->backward = std::move(backward);
  auto variable = make_variable(y);
  variable->producer = std::move(node);
  y.set_variable(std::move(variable));
}

void backward(const Tensor& loss, double seed) {
  check(loss.defined() && loss.numel() == 1, "backward() needs a loss of one element, got shape {}",
        loss.shape());
  check(loss.variable() && loss.variable()->producer,
        "backward() of a loss that depends on nothing differentiable (no parameter that wants a "
        "gradient, or NoGrad was in force)");
  auto graph = graph_of(loss.variable());
  loss.variable()->grad = Tensor::full(loss.variable()->shape, seed, loss.dtype(), loss.device());
  loss.variable()->fresh = false;
  for (auto& output : graph) {
    Node& node = *output->producer;
    const Backward run = std::exchange(node.backward, nullptr);
    if (!output->fresh) run(output->grad);
    output->grad.reset();
    node.inputs.clear();
    output.reset();
  }
}

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

NoGrad::NoGrad() : previous_(std::exchange(recording, false)) {}
NoGrad::~NoGrad() { recording = previous_; }

}  // namespace accrue
