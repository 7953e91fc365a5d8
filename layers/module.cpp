#include "layers/module.h"

namespace accrue {

void Module::visit_parameters(const ParameterVisitor& visit, const std::string& prefix) {
  for (auto& [name, parameter] : parameters_) visit(prefix + name, *parameter);
  for (auto& [name, child] : children_) child->visit_parameters(visit, prefix + name + ".");
}

void Module::visit_buffers(const BufferVisitor& visit, const std::string& prefix) {
  for (auto& [name, buffer] : buffers_) visit(prefix + name, *buffer);
  for (auto& [name, child] : children_) child->visit_buffers(visit, prefix + name + ".");
}

Parameters place(Module& model, DType dtype, Device device, uint64_t seed) {
  std::vector<Declaration> declared, buffers_declared;
  model.visit_parameters([&](const std::string& name, Parameter& p) {
    check(!p.tensor.defined(), "parameter {} is already placed on a device", name);
    declared.push_back({name, p.shape});
  });
  model.visit_buffers([&](const std::string& name, Buffer& b) {
    buffers_declared.push_back({name, b.shape});
  });
  Parameters parameters(declared, buffers_declared, dtype, device);
  size_t number = 0;
  model.visit_parameters([&](const std::string&, Parameter& p) {
    p.tensor = parameters.entries()[number].tensor;
    if (!is_meta(device)) {
      const Tensor drawn = device == Device::cpu
                               ? p.tensor
                               : Tensor::empty(p.shape, dtype, Device::cpu, Category::workspace);
      dispatch_floating(dtype, [&]<class T>() { p.init.fill(drawn.span<T>(), seed, number); });
      if (device != Device::cpu) p.tensor.copy_from(drawn);
    }
    ++number;
  });
  number = 0;
  model.visit_buffers([&](const std::string&, Buffer& b) {
    b.tensor = parameters.buffer_entries()[number++].tensor;
    b.tensor.fill(b.initial_value);
  });
  return parameters;
}

void Sequential::append(std::unique_ptr<Module> layer) {
  declare(std::to_string(next_number_), *layer);
  const int number = std::exchange(next_number_, next_number_ + layer->places());
  layers_.push_back({number, std::move(layer)});
}

Tensor Sequential::forward(Tensor x, const Pass& pass) const {
  for (const auto& [number, layer] : layers_) x = layer->forward(std::move(x), pass);
  return x;
}

std::string Sequential::describe() const {
  std::string text;
  for (const auto& [number, layer] : layers_)
    text += fmt::format("{:>3}  {}\n", number, layer->describe());
  return text;
}

}  // namespace accrue
