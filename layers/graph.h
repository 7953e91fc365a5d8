#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "layers/graph_ops.h"
#include "layers/module.h"
#include "layers/named_network.h"

namespace accrue {

// A network as a list of calls, each of an op by its name (layers/graph_op_list.cpp) or of a layer:
//
//     Graph net;
//     const Graph::Value x = net.input("images");
//     const Graph::Value h = net.call(std::make_unique<Conv2d>(8, 8, 3, Conv2dShape{1, 1}), x,
//     "conv"); net.output(net.call("relu", {net.call("add", {x, h})}));
//
// A call comes after the calls whose results it takes. forward() gives a tensor away at its last
// use, so that ops write over it where they can. Parameters and buffers have the names that they
// are given, within a layer behind the layer's name, and are declared in the order of their first
// use. A layer that is called twice shares its weights.
//
// For Recompute, a graph may be cut once between any two calls with weights of more than one
// dimension, where the results that cross weigh least. Recompute::sqrt takes the cuts for which the
// results that are kept and the largest segment are smallest together. Recompute::all cuts wherever
// one differentiable tensor alone crosses, and elsewhere as sqrt does. Results that depend on no
// tensor with a gradient, such as a mask of an input, are computed before all segments and kept. A
// graph that cannot be cut leaves Recompute to its layers.
//
// Unless a pass is observed or traced, a call is joined to the one that alone reads its result:
// - a batch norm or a sum of two tensors to a relu, by one kernel for both;
// - on cuda a linear to the sum that is called next, if the other term is no parameter, and of the
//   linear's shape and type, by add_linear() (kernels/linear.h), which rounds once in 16 bits;
// - on cuda, in training, a linear with a trained bias to the gelu that is called next, by
//   linear_then(), which takes one kernel less in backward.
// A graph is not cut behind a linear that is joined, so Recompute changes no bit.
class Graph : public Layer, public NamedNetwork {
 public:
  // A value of this graph. One that is default-constructed stands for an operand that is left out.
  struct Value {
    static constexpr size_t none = size_t(-1);
    size_t number = none;
    bool defined() const { return number != none; }
  };
  // The attributes of a call by their names. The others have the values of the op's signature.
  using Attributes = std::vector<std::pair<std::string, detail::OpValue>>;

  Graph();
  ~Graph() override;

  Value input(std::string name = "x");
  Value parameter(std::string name, const Shape& shape, Init init);
  Value buffer(std::string name, const Shape& shape, Init init);
  // Numbers in the type that the network computes in, or with DType::i32 integers. They are no
  // weights and are in no file.
  Value constant(std::string name, std::vector<double> values, const Shape& shape,
                 DType dtype = DType::f32);

  // The result of an op. Errors, plans and profiles name the call by its scope, "%7" if it has
  // none. Throws Error for an op that is not in the list, and for operands and attributes that it
  // does not take.
  Value call(std::string_view op, const std::vector<Value>& operands,
             const Attributes& attributes = {}, std::string scope = "");
  // The results of an op that has several, such as split's.
  std::vector<Value> call(std::string_view op, const std::vector<Value>& operands, size_t results,
                          const Attributes& attributes = {}, std::string scope = "");
  // Makes a layer this graph's. Without a name it gets a number at its first call, as in a
  // Sequential.
  const Layer& add(std::unique_ptr<Layer> layer, std::string name = "");
  // The result of a layer that was added.
  Value call(const Layer& layer, Value x);
  // add() and call().
  Value call(std::unique_ptr<Layer> layer, Value x, std::string name = "");
  // Appends a result of the network. Without a name the only output is "y", and several are "y0",
  // "y1", ... Throws Error for a name that another output has.
  void output(Value value, std::string name = "");

  size_t inputs() const { return inputs_.size(); }
  size_t outputs() const { return outputs_.size(); }
  std::vector<std::string> input_names() const override;
  std::vector<std::string> output_names() const override;
  // How much memory the call of this result takes beside other calls, which have 1 unless this is
  // called: segments for Recompute::sqrt are of about equal weight.
  void weigh(Value result, double weight);

  // The network's answers to its inputs, in the order in which they were declared. Throws Error
  // unless there is a tensor for each input, and what the ops throw.
  std::vector<Tensor> run(std::vector<Tensor> inputs, const Pass& pass) const;
  // Some of the answers: calls that only the others need are left out.
  std::vector<Tensor> outputs_of(std::vector<Tensor> inputs, const std::vector<std::string>& wanted,
                                 const Pass& pass) const override;
  // The same for a graph of one input and one output. Throws Error for another.
  Tensor forward(Tensor x, const Pass& pass) const override;
  // The calls, a line each.
  std::string describe() const override;

 private:
  class Held;
  class Node;
  // A value: an input, a parameter, buffer or constant that is held, or a result.
  struct Known {
    std::string name;
    Held* held = nullptr;
    std::optional<size_t> call{};  // that it is a result of
  };
  struct Call {
    Node* op = nullptr;  // or
    const Layer* layer = nullptr;
    std::string name;                           // the scope
    std::vector<size_t> operands{}, results{};  // numbers of values; Value::none is left out
    bool has_weights = false;
    double weight = 1;
  };
  // Calls in the order in which they run, and of each value the position of its last use, which for
  // the outputs that they are needed for is behind all calls. joined has for each position that of
  // the call which can run with it, or Value::none.
  struct Schedule {
    std::vector<size_t> order, last_use, outputs, joined{};
  };
  // The values of a pass.
  using Values = std::vector<Tensor>;
  // How a graph is cut.
  struct Cutting {
    std::vector<bool> differentiable;  // values, for which this is true
    Recompute recompute;
    std::shared_ptr<const Schedule> schedule;
    size_t first;              // the position of the first segment
    std::vector<size_t> ends;  // the segments'
  };
  struct Running {
    const Pass& pass;
    int64_t samples;
    DType dtype;
  };

  Value add_value(Known value);
  Value hold(std::unique_ptr<Held> held);
  void declare_held(size_t value);
  const std::vector<size_t>& add_call(Call call, const std::vector<Value>& operands,
                                      size_t results);
  bool has_fixed_weights(const Call& call) const;
  std::string text_of(const Call& call) const;

  static bool is_op(const Call& call, std::string_view name);
  // A linear without an activation of its own.
  static bool is_linear(const Call& call);
  // A call that can apply a relu.
  static bool can_activate(const Call& call);
  // The formula of a gelu, and nothing for another call.
  static std::optional<detail::formula::AnyPointwise> gelu_of(const Call& call);
  // The operand of a sum beside the linear's result.
  static size_t term_slot(const Call& sum, const Call& linear);
  std::vector<size_t> live_calls(const std::vector<size_t>& outputs) const;
  Schedule schedule_of(std::vector<size_t> order, std::vector<size_t> outputs) const;
  std::vector<size_t> joined_of(const Schedule& schedule) const;
  std::vector<bool> differentiable(const Values& values) const;
  bool is_differentiable(const Call& call, const std::vector<bool>& values) const;
  std::shared_ptr<const Cutting> cutting_for(const Schedule& plain,
                                             std::vector<bool> differentiable,
                                             Recompute recompute) const;
  Tensor take(const Schedule& schedule, size_t position, size_t slot, Values& values) const;
  bool runs_joined(const Schedule& schedule, size_t position, size_t end, const Values& values,
                   const Running& running) const;
  std::vector<Tensor> results_of(const Schedule& schedule, size_t position, size_t joined,
                                 Values& values, const Running& running) const;
  void run_calls(const Schedule& schedule, size_t begin, size_t end, Values& values,
                 const Running& running) const;
  void run_segment(const std::shared_ptr<const Schedule>& schedule, size_t begin, size_t end,
                   Values& values, const Running& running) const;
  void run_in_segments(const Schedule& plain, Values& values, const Running& running) const;
  std::vector<Tensor> run(const Schedule& plain, std::vector<Tensor> inputs,
                          const Pass& pass) const;
  DType computes_in(const Values& inputs) const;

  std::vector<Known> values_;
  std::vector<Call> calls_;
  std::vector<std::unique_ptr<Held>> held_;
  std::vector<std::unique_ptr<Node>> nodes_;
  struct Added {
    std::unique_ptr<Layer> layer;
    std::string name;
    std::vector<const Parameter*> parameters;
    bool is_declared = false;
  };
  std::vector<Added> layers_;
  std::vector<size_t> inputs_, outputs_;
  std::vector<std::string> output_names_;  // empty for those without
  Schedule plain_;                         // of what the outputs need
  mutable std::mutex cutting_mutex_;
  mutable std::shared_ptr<const Cutting> cutting_;  // the last
  int next_number_ = 0;
  size_t results_ = 0;
};

}  // namespace accrue
