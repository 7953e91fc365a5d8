#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "onnx/reader/conversion.h"

namespace accrue::detail {

// A constant at one number of samples.
struct Folded {
  OnnxType type = OnnxType::f32;
  Shape shape{};
  std::vector<double> numbers{};
};

// The most elements of a calculated constant: 8 bytes each are an eighth of the machine's memory.
// Never above 2^30.
int64_t most_folded();
// The number of elements. Throws Error for more than most_folded().
size_t check_folded(const Shape& shape);

// A node whose inputs are constants. Throws Error for what it does not have.
struct FoldedNode {
  const OnnxNode& node;
  const std::vector<std::optional<Folded>>& inputs;
  int64_t opset;

  bool has(size_t i) const { return i < inputs.size() && inputs[i]; }
  const Folded& operator[](size_t i) const;
  double number(size_t i) const;
  std::vector<int64_t> integers(size_t i) const;
  Shape shape_in(size_t i) const;
  // An attribute of older opsets that newer ones have as an input; empty if it is left out.
  std::vector<int64_t> axes_in(const char* attribute, size_t input) const;
  int dimension(int64_t axis, int rank) const;
  size_t checked(const Shape& shape) const { return check_folded(shape); }
};

// Ops that move elements, by name.
using FoldedMove = std::vector<Folded> (*)(const FoldedNode& node);
const std::map<std::string, FoldedMove, std::less<>>& folded_moves();

}  // namespace accrue::detail
