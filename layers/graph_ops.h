#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "core/tensor.h"
#include "kernels/activation.h"
#include "kernels/detail/per_axis.h"
#include "kernels/pointwise.h"
#include "layers/module.h"

namespace accrue::detail {

// The ops that a Graph can call (layers/graph.h), by their names in PyTorch. Python's functions are
// made of the same list, and files of other programs are read onto it.

// The size of a dimension in an attribute such as reshape's shape: a number, or so many for each
// sample, because a network does not know how many samples it gets. -1 is the rest.
struct Extent {
  int64_t number = 0;
  bool per_sample = false;

  Extent(int64_t number = 0) : number(number) {}
  static Extent of_samples(int64_t each = 1);
  int64_t of(int64_t samples) const { return per_sample ? number * samples : number; }
  friend bool operator==(const Extent&, const Extent&) = default;
};

using Extents = std::vector<Extent>;
using Integers = std::vector<int64_t>;
// The value of an attribute. monostate is Python's None.
using OpValue = std::variant<std::monostate, bool, int64_t, double, std::string, Integers, Extents>;
// As Python writes it: "2", "(0, 1)", "'nearest'", "(N, 64)".
std::string to_string(const OpValue& value);

class OpCall;

// One op of the list.
struct GraphOp {
  // A part of a signature: an operand, or an attribute.
  struct Argument {
    enum class Type {
      tensor,   // an operand
      weight,   // an operand that is a parameter, which the op reads in float32 or its 16-bit copy
      tensors,  // all operands from here on
      flag,
      integer,
      number,
      text,
      integers,  // one integer stands for itself
      sizes
    };
    std::string name;
    Type type = Type::tensor;
    bool is_required = true;
    OpValue by_default{};

    bool is_operand() const { return type <= Type::tensors; }
  };
  using Run = std::function<std::vector<Tensor>(OpCall& call)>;

  std::string name;
  // "(input, dim: int = -1)"
  std::string signature;
  std::vector<Argument> arguments;
  // False if its results are constants to differentiation, such as indices.
  bool is_differentiable = true;
  // True if the number of its results depends on its attributes.
  bool has_several_results = false;
  bool is_random = false;
  // True if it applies OpCall::Where::activation.
  bool can_activate = false;
  Run run;

  // Its operands, in their order.
  std::vector<const Argument*> operands() const;
  // Its attributes, in their order.
  std::vector<const Argument*> attributes() const;
  // The values of all attributes in that order, from those that are given by name. Throws Error for
  // names and values that do not fit.
  std::vector<OpValue> arguments_of(
      const std::vector<std::pair<std::string, OpValue>>& given) const;
  // Throws Error unless so many operands fit, of which `defined` says which are there.
  void check_operands(const std::vector<bool>& defined) const;
};

// The list. Throws Error for a name that is not in it.
const std::vector<GraphOp>& graph_ops();
// Adds the rows of kernels/elementwise.h, rearrange.h, reduce.h and their like.
void add_general_ops(std::vector<GraphOp>& ops);
bool has_graph_op(std::string_view name);
const GraphOp& graph_op(std::string_view name);

// A row of the list: a signature as Python writes it, and the call. `dim: int = -1` is an attribute
// of this type, `input` an operand, `weight: weight = None` one that may be left out,
// `tensors: tensors` stands for all operands. Types are bool, int, float, str, ints and sizes.
// After the parenthesis, "-> constant", "-> several", "-> random" and "-> activated" set GraphOp's
// marks.
GraphOp row_of(std::string_view signature, GraphOp::Run run);
template <class Run>
requires std::is_same_v<std::invoke_result_t<Run, OpCall&>, Tensor> GraphOp
row_of(std::string_view signature, Run run) {
  return row_of(signature, GraphOp::Run([run](OpCall& call) {
                  std::vector<Tensor> results;
                  results.push_back(run(call));
                  return results;
                }));
}

// One call of an op in a forward pass.
class OpCall {
 public:
  // The network around the call.
  struct Where {
    const Pass& pass;
    const void* node;          // tells the calls of a network apart
    uint32_t number = 0;       // of this call among the network's
    int64_t samples = 0;       // of the network's input
    DType dtype = DType::f32;  // in which the network computes
    bool is_fixed = false;     // the call has weights, and all are fixed (core/parameters.h)
    // To be applied to the result, of ops with can_activate.
    Activation activation = Activation::none;
    // The same, of linear, which adds a further operand to its result.
    std::optional<formula::AnyPointwise> formula{};
  };

  OpCall(const GraphOp& op, std::vector<Tensor> operands, const std::vector<OpValue>& attributes,
         const Where& where)
      : where(where), op_(op), operands_(std::move(operands)), attributes_(attributes) {}

  const Where where;

  const std::vector<Tensor>& operands() const { return operands_; }
  // Operand i; undefined if it was left out.
  const Tensor& operator[](size_t i) const { return operands_.at(i); }
  // The same, given away: an op may write over it.
  Tensor take(size_t i = 0) { return std::move(operands_.at(i)); }
  std::vector<Tensor> take_all() { return std::move(operands_); }

  // Attributes by their names in the signature.
  bool has(std::string_view name) const;
  bool flag(std::string_view name) const;
  int64_t integer(std::string_view name) const;
  double number(std::string_view name) const;
  const std::string& text(std::string_view name) const;
  const Integers& integers(std::string_view name) const;
  // Sizes as they were given.
  const Extents& sizes(std::string_view name) const;
  // Dimension `name` of operand i, counted from the start.
  int dimension(std::string_view name, size_t i = 0) const;
  // One integer for both axes of an image, or one for rows and one for columns.
  PerAxis axes(std::string_view name) const;
  // With this many elements, so that one size may be -1.
  Shape shape(std::string_view name, int64_t elements) const;
  const std::string& op_name() const { return op_.name; }

 private:
  const OpValue& attribute(std::string_view name) const;

  const GraphOp& op_;
  std::vector<Tensor> operands_;
  const std::vector<OpValue>& attributes_;
};

// While alive, runs the ops of the graphs that this thread runs. A trace within another trace
// replaces it.
class OpTrace {
 public:
  OpTrace() : before_(of_this_thread) { of_this_thread = this; }
  virtual ~OpTrace() { of_this_thread = before_; }
  OpTrace(const OpTrace&) = delete;
  OpTrace& operator=(const OpTrace&) = delete;

  // Returns what op.run(call) returns.
  virtual std::vector<Tensor> run(const GraphOp& op, OpCall& call) = 0;

  // The trace of this thread; null if there is none.
  static OpTrace* current() { return of_this_thread; }

 private:
  static thread_local constinit OpTrace* of_this_thread;

  OpTrace* const before_;
};

}  // namespace accrue::detail
