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
