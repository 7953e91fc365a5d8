#pragma once

#include <set>
#include <string>
#include <vector>

#include "onnx/reader/network.h"
#include "onnx/reader/recipe.h"

namespace accrue::detail {

// The nodes that these outputs need, in their order.
std::vector<OnnxNode> nodes_needed(const std::vector<OnnxNode>& nodes,
                                   const std::set<std::string>& outputs);

// Throws Error that names a node of control flow, whose graphs take values that its inputs do not
// name.
void refuse_branches(const std::vector<OnnxNode>& nodes);

// The floating initializers that weight slots of these nodes hold, directly or through nodes that
// only move them, and those that an Add gives to a convolution or product as its bias.
std::set<std::string> weights_of(const OnnxFile& file, const std::vector<OnnxNode>& nodes);

// Turns nodes into a recipe. `inputs` are its values, `weights` names initializers that become
// parameters. Throws Error that names the node that cannot be one of a network.
class OnnxWalk {
 public:
  OnnxWalk(const OnnxFile& file, const std::set<std::string>& weights, OnnxRecipe& recipe)
      : file_(file), weights_(weights), recipe_(recipe) {}

  void add(const std::string& name, OnnxValue value);
  // `needed` are the values that a node or an output takes.
  void run(const OnnxNode& node, const std::set<std::string>& needed);
  const OnnxValue& value(const std::string& name);

 private:
  OnnxValues results_of(const OnnxNode& node, const std::set<std::string>& needed);
  OnnxValues converted(const OnnxNode& node, OnnxValues inputs,
                       const std::set<std::string>& needed);
  // Throws Error unless the sizes are those that the file says.
  void check_sizes(const OnnxValue& value) const;

  const OnnxFile& file_;
  const std::set<std::string>& weights_;
  OnnxRecipe& recipe_;
  std::map<std::string, OnnxValue> values_;
  int64_t folded_ = 0;  // elements of constants that nodes gave
};

}  // namespace accrue::detail
