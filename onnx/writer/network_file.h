#pragma once

#include <string>
#include <vector>

#include "layers/module.h"
#include "onnx/writer/onnx.h"

namespace accrue {

namespace detail {

// An input of a network: samples [N, shape...] by a name.
struct InputSamples {
  std::string name;
  Shape shape{};  // of one
  DType dtype = DType::f32;
};

// An example of the network's answers to N samples of zeros. A Graph gets its inputs in the order
// in which they were declared, and has an answer for each output.
Example example_of(const Layer& network, const std::vector<InputSamples>& inputs,
                   const std::vector<std::string>& answers, int64_t N);

}  // namespace detail

// The ONNX file of a network, or of a Graph with several inputs and outputs, which have these
// names in the file. Throws Error as the other onnx_of() does, and for another number of names.
std::string onnx_of(const Layer& network, const std::vector<detail::InputSamples>& inputs,
                    const std::vector<std::string>& answers, const Parameters& parameters,
                    const Metadata& metadata = {}, const std::optional<Normalization>& bytes = {});

}  // namespace accrue
