#include "onnx/writer/network_file.h"

#include <algorithm>

#include "core/inside.h"
#include "layers/graph.h"

namespace accrue {

Example detail::example_of(const Layer& network, const std::vector<InputSamples>& inputs,
                           const std::vector<std::string>& answers, int64_t N) {
  Example example{.answer_names = answers};
  std::vector<Tensor> all;
  for (const auto& [name, shape, dtype] : inputs) {
    std::vector<int64_t> sizes{N};
    std::ranges::copy(shape.sizes(), std::back_inserter(sizes));
    all.push_back(Tensor::empty(Shape(sizes), dtype, Device::cpu));
    std::ranges::fill(all.back().host_bytes(), std::byte{0});  // 0 of any type
    example.inputs.push_back({name, all.back()});
  }
  example.answers = [&network, all] {
    if (const auto* graph = dynamic_cast<const Graph*>(&network))
      return graph->run(all, Pass::eval());
    check(all.size() == 1, "a layer has {}: expected one, or a Graph",
          counted(std::ssize(all), "input"));
    return std::vector{network(all.front(), Pass::eval())};
  };
  return example;
}

std::string onnx_of(const Layer& network, const std::vector<InputSamples>& inputs,
                    const std::vector<std::string>& answers, const Parameters& parameters,
                    const Metadata& metadata, const std::optional<Normalization>& bytes) {
  return onnx_of([&](int64_t N) { return example_of(network, inputs, answers, N); }, parameters,
                 metadata, bytes);
}

}  // namespace accrue
