#include "apps/weights.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "data/safetensors.h"

namespace accrue::app {
namespace {

NamedTensors named_tensors(const Parameters& parameters) {
  NamedTensors tensors;
  for (const auto& entry : parameters.entries())
    tensors.emplace_back(entry.name, entry.tensor.detach());
  for (const auto& buffer : parameters.buffer_entries())
    tensors.emplace_back(buffer.name, buffer.tensor);
  return tensors;
}

void check_finite(const std::string& path, const std::string& tensor_name, const Tensor& tensor) {
  dispatch_floating(tensor.dtype(), [&]<class T>() {
    const auto values = tensor.span<T>();
    const auto bad = std::ranges::find_if(values, [](T v) { return !std::isfinite(v); });
    check(bad == values.end(), "{}: {} holds {} at element {}: training cannot start from it", path,
          tensor_name, *bad, bad - values.begin());
  });
}

}  // namespace

void save_weights(const std::string& path, const Parameters& parameters) {
  NamedTensors tensors = named_tensors(parameters);
  for (auto& [name, tensor] : tensors)
    if (tensor.device() != Device::cpu) tensor = tensor.to(Device::cpu);
  write_safetensors(path, tensors, {{"format", "pt"}});
}

void load_weights(const std::string& path, Parameters& parameters) {
  const NamedTensors file = read_safetensors(path);
  const std::map<std::string, Tensor> found(file.begin(), file.end());
  const NamedTensors wanted = named_tensors(parameters);
  std::string problems;
  for (const auto& [name, tensor] : wanted) {
    const auto it = found.find(name);
    if (it == found.end()) {
      problems += fmt::format("\n  {} {} is missing", name, tensor.shape());
      continue;
    }
    if (it->second.shape() != tensor.shape() || it->second.dtype() != tensor.dtype())
      problems +=
          fmt::format("\n  {} is {} {}, expected {} {}", name, accrue::name(it->second.dtype()),
                      it->second.shape(), accrue::name(tensor.dtype()), tensor.shape());
    else check_finite(path, name, it->second);
  }
  for (const auto& [name, tensor] : found) {
    // PyTorch's BatchNorm counts its batches; nothing here depends on that.
    if (!name.ends_with("num_batches_tracked") &&
        std::ranges::none_of(wanted, [&](const auto& k) { return k.first == name; }))
      problems += fmt::format("\n  {} {} is not in the model", name, tensor.shape());
  }
  check(problems.empty(), "{} does not fit the model (is --model the one it was saved from?):{}",
        path, problems);
  for (const auto& [name, tensor] : wanted) tensor.copy_from(found.at(name));
}

}  // namespace accrue::app
