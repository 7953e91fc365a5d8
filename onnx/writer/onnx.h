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

// A network's answers to some inputs, as an example of its computation for any inputs.
struct Example {
  struct Input {
    std::string name;
    Tensor values;  // f32 or i32, on the cpu
  };
  std::vector<Input> inputs;
  // The names of the leading sizes of inputs, which may vary. An input with fewer dimensions has
  // only the first of them.
  std::vector<std::string> free_sizes{"batch"};
  std::vector<std::string> answer_names;
  // Returns an f32 or i32 tensor for each name. Called once.
  std::function<std::vector<Tensor>()> answers;

  // Set if the first input is rows of tokens with free sizes N and T: i32 [N, T], 0, 1, ... in each
  // row. The graph computes these positions from N and T. A row has at most most_positions tokens.
  Tensor positions{};
  int64_t most_positions = 0;
};

// The same for a number of samples, which is the first free size.
using ExampleOf = std::function<Example(int64_t samples)>;

}  // namespace detail

// The ONNX file of such a network (https://onnx.ai, opset 17), for any free sizes: the ops that a
// Graph calls to compute the answers, and elsewhere the kernels. Tensors that neither has written
// become constants: parameters and buffers by their names, and any other tensor that an answer
// reads. With `bytes` the first input is u8, and the graph normalizes it:
// (x / 255 - mean[c]) / std[c].
//
// Runs the example for two numbers of samples, so that the file has the sizes that grow with them,
// in any dimension, for any number.
//
// Throws an Error that names the op or the kernel if it has no counterpart in ONNX. Throws Error
// for constants that are neither f32 nor i32, for 2 GiB or more, which exceeds a protobuf message,
// and if the program was built without protobuf.
std::string onnx_of(const detail::ExampleOf& example, const Parameters& parameters,
                    const Metadata& metadata = {}, const std::optional<Normalization>& bytes = {});

}  // namespace accrue
