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

// A network's answer to some inputs, as an example of what it computes from any.
struct Example {
  struct Input {
    std::string name;
    Tensor values;  // f32 or i32, on the cpu
  };
  std::vector<Input> inputs;
  // The names of the first sizes of inputs, which may be other ones; an input with fewer sizes has
  // the first of them.
  std::vector<std::string> free_sizes{"batch"};
  std::string answer_name;
  // f32, and with the free sizes in front, or only so many of them. It is computed once.
  std::function<Tensor()> answer;
  std::optional<size_t> free_sizes_of_answer{};

  // Where the first input is rows of tokens, whose sizes N and T are free: i32 [N, T], 0, 1, ... in
  // each row, which the graph makes from these sizes. A row has at most most_positions tokens.
  Tensor positions{};
  int64_t most_positions = 0;
};

}  // namespace detail

// The ONNX file of such a network (https://onnx.ai, opset 17), for any free sizes: a graph of the
// kernels that the answer launches. A tensor that none of these has written is a constant in it:
// parameters and buffers by their names, and what else the answer reads. With `bytes` the first
// input is u8, and the graph normalises it: (x / 255 - mean[c]) / std[c].
// Throws Error for a kernel that has no counterpart in ONNX, by its name, for constants that are
// neither f32 nor i32, for 2 GiB or more, which a protobuf message does not hold, and if the
// program was built without protobuf.
std::string onnx_of(const detail::Example& example, const Parameters& parameters,
                    const Metadata& metadata = {}, const std::optional<Normalization>& bytes = {});

}  // namespace accrue
