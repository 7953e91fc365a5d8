#pragma once

#include <array>
#include <map>
#include <string>
#include <vector>

#include "core/kernel_trace.h"
#include "core/rule.h"
#include "kernels/activation.h"
#include "layers/graph_ops.h"
#include "onnx/writer/onnx.h"
#include "onnx/writer/onnx_graph.h"

namespace accrue {

// Adds the computation of this thread's kernels, and of the ops of its graphs, to an OnnxGraph. A
// tensor is identified by its address, and a tensor that nothing has written is a constant.
class OnnxTrace : public KernelTrace, public OpTrace {
 public:
  using Name = OnnxGraph::Name;
  using Integers = OnnxGraph::Integers;

  // A shape in this run of the example, and in a run before it with another number of samples. A
  // size that differs is free: the graph computes it.
  struct FreeShape {
    Shape shape, before;

    bool is_free(int dim) const { return shape[dim] != before[dim]; }
    friend bool operator==(const FreeShape&, const FreeShape&) = default;
  };
  // The shapes of a run, in order.
  struct Shapes {
    int64_t samples = 0;
    std::vector<Shape> all{};
  };

  // Defines the inputs of the example, which has so many samples. `before` has the shapes of a run
  // before, or none.
  OnnxTrace(const Example& example, int64_t samples, const Parameters& parameters,
            const std::optional<Normalization>& bytes, const Shapes& before);
  // Runs the example and defines its answers.
  void run();
  const Shapes& shapes() const { return shapes_; }

  // Throws Error for a kernel that has no counterpart in ONNX.
  void add(const KernelCall& call) override;
  // Adds nodes for the op, or else for its kernels.
  std::vector<Tensor> run(const GraphOp& op, OpCall& call) override;

  // The value that a kernel or an op reads, in its shape.
  Name in(const View& x);
  Name in(const Tensor& x) { return in(x.view()); }
  // The value that a kernel writes.
  void define(const View& y, const Name& value);
  void define(const GradTarget& y, const Name& value) {
    define(y.grad, y.beta == 0 ? value : graph.add("Add", {in(y.grad), value}));
  }
  // The next shape of this run and of the run before it.
  FreeShape free_shape(const Shape& shape);
  // The sizes as numbers of the graph, int64 [rank].
  Name sizes_of(const FreeShape& shape);
  // Minus infinity, of such sizes, for the entries of row i from i + `first` on, and 0 before them.
  Name unseen_from(int64_t first, const FreeShape& sizes);
  // The softmax of scores over their last dimension. A key mask, unless its name is empty, hides
  // keys where it is 0 in the shape that it gets; 0 for rows in which all scores are minus
  // infinity.
  Name softmax_of_seen(const Name& scores, const Name& key_mask, const Integers& shape);
  // x, which has the shape `from`, in another one.
  Name reshaped(const Name& x, const FreeShape& from, const FreeShape& to);
  // The name of the parameter at this address, or "constant".
  std::string name_of(const View& x) const;
  // Throws Error unless these are the example's positions, with which each row is one document.
  void check_positions(const View& positions) const;

  Name multiply(const Name& a, const Name& b) { return graph.add("Mul", {a, b}); }
  Name multiply(const Name& x, double factor) { return multiply(x, graph.number(factor)); }
  Name sum(const Name& a, const Name& b) { return graph.add("Add", {a, b}); }
  Name silu(const Name& x) { return multiply(x, graph.add("Sigmoid", {x})); }
  Name cast(const Name& x, int64_t type) { return graph.add("Cast", {x}, {{"to", type}}); }
  Name transposed(const Name& x, const Integers& order) {
    return graph.add("Transpose", {x}, {{"perm", order}});
  }
  Name activated(const Name& x, Activation activation);

  OnnxGraph graph;
  const Example& example;

  // State that some kernels begin and later kernels use.

  // The moments of a norm, by the address of rstd: x's, or running moments.
  struct Moments {
    double eps;
    View mean, var;  // empty if the moments are x's
  };
  std::map<const void*, Moments> moments;
  std::map<const void*, std::vector<Name>> parts;  // of a concatenation
  // The cosines and sines of all positions, by the frequencies.
  std::map<std::vector<double>, std::array<Name, 2>> rotations;
  Name sizes;   // [N, T] of tokens
  Name unseen;  // [T, T]: minus infinity for the tokens after a token

 private:
  // The value at an address, in one of the shapes that it is read in.
  struct Value {
    Name name;
    FreeShape shape;
    size_t bytes;
  };
  void check_alike(bool is_alike) const;
  void define_positions();
  void define_bytes(const Example::Input& input, const Normalization& normalization);
  void define_answer(const Name& name, const Tensor& y);
  Name reshaped_tokens(const Name& x, const Shape& shape);
  bool has_tokens() const { return free_.size() == 2; }

  Integers free_;  // the example's
  Shapes shapes_;
  const Shapes earlier_;
  Name samples_;           // int64 [1]
  bool is_in_op_ = false;  // that has its own nodes
  std::map<const void*, std::string> parameters_;
  std::map<const void*, std::vector<Value>> values_;
  std::map<std::pair<const void*, Integers>, Name> constants_;
};

// Add the nodes for a kernel of the named kind; return false for any other kernel.
bool add_arithmetic(OnnxTrace& to, const KernelCall& call);
bool add_general(OnnxTrace& to, const KernelCall& call);
bool add_product(OnnxTrace& to, const KernelCall& call);
bool add_norm(OnnxTrace& to, const KernelCall& call);
bool add_of_images(OnnxTrace& to, const KernelCall& call);
bool add_of_tokens(OnnxTrace& to, const KernelCall& call);

// An op of a graph that has run. Its kernels are not traced.
struct OnnxOp {
  OnnxTrace& to;
  const OpCall& call;
  const std::vector<Tensor>& results;

  OnnxTrace::Name in(size_t i = 0) const { return to.in(call[i]); }
  OnnxTrace::FreeShape shape(size_t i = 0) const { return to.free_shape(call[i].shape()); }
  OnnxTrace::FreeShape result(size_t i = 0) const { return to.free_shape(results[i].shape()); }
};
// The values of its results.
using OnnxNodes = std::vector<OnnxTrace::Name> (*)(const OnnxOp& op);
// Null for an op whose kernels are traced.
OnnxNodes nodes_of(std::string_view op);

}  // namespace accrue
