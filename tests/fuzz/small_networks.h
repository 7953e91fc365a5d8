#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/random.h"
#include "tests/onnx/onnx_bytes.h"

namespace accrue::fuzz {

// A small ONNX file before it is written, so that its structure can be changed.
struct SmallNetwork {
  struct Tensor {
    std::string name;
    std::vector<int64_t> sizes;
    int64_t type;
    std::vector<double> numbers;
  };
  struct Node {
    std::string op;
    std::vector<std::string> inputs, outputs;
    std::vector<std::pair<std::string, test::OnnxBytes::Attribute>> attributes{};
    std::string domain{};
  };
  struct Value {
    std::string name;
    test::OnnxBytes::Sizes sizes;
    int64_t type = test::OnnxBytes::f32;
  };

  int64_t opset = 17;
  std::vector<Node> nodes{};
  std::vector<Tensor> tensors{};
  std::vector<Value> inputs{}, outputs{}, known{};

  std::string bytes() const;
};

// Networks that can be trained.
const std::vector<SmallNetwork>& small_networks();

// One of the networks after a few changes: nodes are removed, doubled or moved, and get other ops,
// inputs and attributes; values get other sizes and types, and tensors other elements.
SmallNetwork changed_network(RandomStream& random);

}  // namespace accrue::fuzz
