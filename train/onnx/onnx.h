#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/parameters.h"
#include "data/safetensors.h"
#include "kernels/gather_samples.h"

namespace accrue {

namespace detail {

// A network's answer to some inputs, as an example of its computation for any inputs.
struct Example {
  struct Input {
    std::string name;
    Tensor values;  // f32 or i32, on the cpu
  };
  std::vector<Input> inputs;
  // The names of the leading sizes of inputs, which may vary. An input with fewer dimensions has
  // only the first of them.
  std::vector<std::string> free_sizes{"batch"};
  std::string answer_name;
  // Returns f32. Its leading sizes are the free sizes, or only the first free_sizes_of_answer ones.
  // Called once.
  std::function<Tensor()> answer;
  std::optional<size_t> free_sizes_of_answer{};

  // Set if the first input is rows of tokens with free sizes N and T: i32 [N, T], 0, 1, ... in each
  // row. The graph computes these positions from N and T. A row has at most most_positions tokens.
  Tensor positions{};
  int64_t most_positions = 0;
};

}  // namespace detail

// The ONNX file of such a network (https://onnx.ai, opset 17), for any free sizes: a graph of the
// kernels that compute the answer. Tensors that no kernel has written become constants: parameters
// and buffers by their names, and any other tensor that the answer reads. With `bytes` the first
// input is u8, and the graph normalizes it: (x / 255 - mean[c]) / std[c].
//
// Throws an Error that names the kernel if it has no counterpart in ONNX. Throws Error for
// constants that are neither f32 nor i32, for 2 GiB or more, which exceeds a protobuf message, and
// if the program was built without protobuf.
std::string onnx_of(const detail::Example& example, const Parameters& parameters,
                    const Metadata& metadata = {}, const std::optional<Normalization>& bytes = {});

}  // namespace accrue
