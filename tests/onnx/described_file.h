#pragma once

#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "core/inside.h"
#include "onnx/reader/network.h"
#include "tests/support/device.h"

namespace accrue::test {

// ONNX files that are described in a test, without bytes.

inline OnnxTensor onnx_tensor(const std::string& name, OnnxType type, const Shape& shape,
                              const std::vector<double>& numbers) {
  OnnxTensor tensor{.name = name, .type = type, .shape = shape};
  const auto bytes = std::make_shared<std::vector<std::byte>>();
  const auto append = [&](auto number) {
    bytes->resize(bytes->size() + sizeof number);
    std::memcpy(bytes->data() + bytes->size() - sizeof number, &number, sizeof number);
  };
  for (const double number : numbers)
    if (type == OnnxType::f64) append(number);
    else if (type == OnnxType::f32) append(float(number));
    else append(int64_t(number));
  tensor.bytes = *bytes;
  tensor.owner = bytes;
  return tensor;
}

class DescribedFile {
 public:
  explicit DescribedFile(int64_t opset) {
    file_->path = "described.onnx";
    file_->opset = opset;
  }

  // The sizes of a sample.
  void input(const std::string& name, const Shape& sample, OnnxType type = OnnxType::f64) {
    OnnxValueInfo info{.name = name, .type = type, .has_shape = true};
    info.sizes.emplace_back("N");
    for (const int64_t size : sample.sizes()) info.sizes.emplace_back(size);
    file_->inputs.push_back(std::move(info));
  }
  void output(const std::string& name) { file_->outputs.push_back({.name = name}); }
  void initializer(OnnxTensor tensor) {
    file_->initializer_order.push_back(tensor.name);
    file_->initializers[tensor.name] = std::move(tensor);
  }
  // A number in float64, by which a node may take it.
  std::string number(double number) {
    const std::string name = "number " + std::to_string(file_->initializers.size());
    initializer(onnx_tensor(name, OnnxType::f64, {}, {number}));
    return name;
  }
  // The name of the node's only result.
  std::string node(const std::string& op, const std::vector<std::string>& inputs,
                   const std::map<std::string, OnnxAttribute>& attributes = {}) {
    const std::string result = op + " " + std::to_string(file_->nodes.size());
    file_->nodes.push_back({op, "", "", inputs, {result}, attributes});
    return result;
  }
  void add(OnnxNode node) { file_->nodes.push_back(std::move(node)); }
  std::shared_ptr<const OnnxFile> file() const { return file_; }

 private:
  std::shared_ptr<OnnxFile> file_ = std::make_shared<OnnxFile>();
};

// 1.5 sin(1.3 i + phase)
inline std::vector<double> onnx_waves(const Shape& shape, double phase) {
  std::vector<double> numbers;
  for (int64_t i = 0; i < shape.numel(); ++i)
    numbers.push_back(1.5 * std::sin(1.3 * double(i) + phase));
  return numbers;
}

// The network's first answer in float64 to inputs [N, ...].
inline Tensor onnx_answer(const OnnxNetwork& network, const std::vector<Tensor>& inputs,
                          Pass::Mode mode = Pass::Mode::eval) {
  const auto graph = network.make();
  const Parameters parameters = place(*graph, DType::f64, test_device(), 1);
  network.load(parameters);
  const int64_t N = inputs.front().size(0);
  const Tensor samples = Tensor::empty({N}, DType::i32, Device::cpu, Category::data);
  for (int64_t n = 0; n < N; ++n) samples.span<int32_t>()[size_t(n)] = int32_t(n);
  const NoGrad no_grad;
  return graph->run(inputs, {.mode = mode, .samples = samples.to(test_device())})
      .front()
      .to(Device::cpu);
}

inline Tensor onnx_input(const Shape& shape, double phase = 0) {
  const Tensor x = Tensor::empty(shape, DType::f64, Device::cpu, Category::data);
  std::ranges::copy(onnx_waves(shape, phase), x.span<double>().begin());
  return x.to(test_device());
}

}  // namespace accrue::test
