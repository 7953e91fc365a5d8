#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "onnx/reader/file.h"

namespace accrue::detail {

// Nodes, with what gives and takes each value, for the passes that put nodes together.
class NodeList {
 public:
  NodeList(std::vector<OnnxNode> nodes, const OnnxFile& file, std::set<std::string> outputs);

  size_t size() const { return nodes_.size(); }
  const OnnxNode& operator[](size_t i) const { return nodes_[i]; }
  bool is_gone(size_t i) const { return gone_.contains(i); }
  // The node that gives a value.
  std::optional<size_t> giver(const std::string& value) const;
  // How often a value is taken, by nodes and by outputs.
  size_t uses(const std::string& value) const;
  bool is_output(const std::string& value) const { return outputs_.contains(value); }
  const std::vector<size_t>& takers(const std::string& value) const;

  // A constant number of the file, in one element.
  std::optional<double> number(const std::string& value) const;
  // Constant integers of the file.
  std::optional<std::vector<int64_t>> integers(const std::string& value) const;
  // Whether a value is one number that follows from constants and sizes alone.
  bool is_known_number(const std::string& value) const;
  // An initializer or the value of a Constant; null for others.
  const OnnxTensor* tensor(const std::string& value) const;
  int64_t opset() const { return file_.opset; }

  // Puts a node in the place of `last`, one of `nodes`, which are gone then. It gives what `last`
  // gives, unless it has outputs of its own.
  void replace(const std::set<size_t>& nodes, size_t last, OnnxNode by);
  // Adds a node that is to stand in front of node `place`.
  void insert(size_t place, OnnxNode node);
  // The nodes that are left, in their order.
  std::vector<OnnxNode> left() const;

 private:
  void index();

  std::vector<OnnxNode> nodes_;
  std::set<size_t> gone_;
  std::map<size_t, std::vector<OnnxNode>> before_;
  const OnnxFile& file_;
  std::set<std::string> outputs_;
  std::map<std::string, size_t> givers_;
  std::map<std::string, std::vector<size_t>> takers_;
};

// Nodes that may be put together, from the one that gives the result back to its operands.
class NodeMatch {
 public:
  NodeMatch(const NodeList& list, size_t last) : list(list), last(last), nodes{last} {}

  const NodeList& list;
  const size_t last;
  std::set<size_t> nodes;

  const OnnxNode& root() const { return list[last]; }
  // The node that gives `value` if it is of this op, which then belongs to the match; else null.
  const OnnxNode* take(const std::string& value, std::string_view op);
  // The other operand of a node of two if one of them is this number.
  std::optional<std::string> beside(const OnnxNode& node, double number) const;
  // True if nothing but the match takes what its nodes give, except for the last one.
  bool is_closed() const;
};

// A product: numbers, known numbers, and all other factors.
struct NodeProduct {
  double number = 1;
  std::vector<std::string> known;  // numbers that follow from sizes...
  std::vector<int64_t> divides;    // ...and whether each divides
  std::vector<std::string> factors;
};
// The product that gives `value`. It goes through Mul and Div whose results are taken once;
// `is_root` for the match's last node.
NodeProduct product_of(NodeMatch& match, const std::string& value, bool is_root = false);

// Equal but for rounding to float32.
bool is_near(double a, double b);

// The passes. Each puts the part together that ends with node `last`, and says whether it did.
bool fuse_norm(NodeList& list, size_t last);
bool fuse_activation(NodeList& list, size_t last);
bool fuse_noise(NodeList& list, size_t last);
bool fuse_attention(NodeList& list, size_t last);
bool fuse_linear(NodeList& list, size_t last);
// Here `last` is the node that makes the sequence.
bool fuse_sequence(NodeList& list, size_t last);

}  // namespace accrue::detail
