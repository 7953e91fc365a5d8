#pragma once

#include <array>
#include <map>
#include <string>
#include <vector>

#include "core/kernel_trace.h"
#include "core/rule.h"
#include "kernels/activation.h"
#include "train/onnx/onnx.h"
#include "train/onnx/onnx_graph.h"

namespace accrue {

// Adds the computation of this thread's kernels to a graph. A tensor is identified by its address,
// and a tensor that no kernel has written is a constant.
class OnnxTrace : public KernelTrace {
 public:
  using Name = OnnxGraph::Name;
  using Integers = OnnxGraph::Integers;

  // Defines the inputs of the example.
  OnnxTrace(const Example& example, const Parameters& parameters,
            const std::optional<Normalization>& bytes);

  // Throws Error for a kernel that has no counterpart in ONNX.
  void add(const KernelCall& call) override;

  // The value that a kernel reads, in the kernel's shape.
  Name in(const View& x);
  // The value that a kernel writes.
  void define(const View& y, const Name& value) {
    values_[y.data] = {value, y.shape, bytes_of(y.dtype, y.numel())};
  }
  void define(const GradTarget& y, const Name& value) {
    define(y.grad, y.beta == 0 ? value : graph.add("Add", {in(y.grad), value}));
  }
  // The name of the parameter at this address, or "constant".
  std::string name_of(const View& x) const;
  // Throws Error unless these are the example's positions, with which each row is one document.
  void check_positions(const View& positions) const;

  Name multiply(const Name& a, const Name& b) { return graph.add("Mul", {a, b}); }
  Name multiply(const Name& x, double factor) { return multiply(x, graph.number(factor)); }
  Name sum(const Name& a, const Name& b) { return graph.add("Add", {a, b}); }
  Name silu(const Name& x) { return multiply(x, graph.add("Sigmoid", {x})); }
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
  struct Value {
    Name name;
    Shape shape;
    size_t bytes;
  };
  void define_positions();
  void define_bytes(const Example::Input& input, const Normalization& normalization);
  Name reshaped(const Name& x, const Shape& shape);

  Integers free_;  // the example's
  std::map<const void*, std::string> parameters_;
  std::map<const void*, Value> values_;
  std::map<std::pair<const void*, Integers>, Name> constants_;
};

// Add the nodes for a kernel of the named kind; return false for any other kernel.
bool add_arithmetic(OnnxTrace& to, const KernelCall& call);
bool add_product(OnnxTrace& to, const KernelCall& call);
bool add_norm(OnnxTrace& to, const KernelCall& call);
bool add_of_images(OnnxTrace& to, const KernelCall& call);
bool add_of_tokens(OnnxTrace& to, const KernelCall& call);

}  // namespace accrue
