#include "train/weights.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "data/safetensors.h"
#include "kernels/step/round_copies.h"

namespace accrue {

NamedTensors named_tensors(const Parameters& parameters) {
  NamedTensors tensors;
  for (const auto& entry : parameters.entries())
    tensors.emplace_back(entry.name, entry.tensor.detach());
  for (const auto& buffer : parameters.buffer_entries())
    tensors.emplace_back(buffer.name, buffer.tensor);
  return tensors;
}

NamedTensors on_cpu(NamedTensors tensors) {
  for (auto& [name, tensor] : tensors)
    if (tensor.device() != Device::cpu) tensor = tensor.to(Device::cpu);
  return tensors;
}

double largest_difference(const NamedTensors& a, const NamedTensors& b) {
  check(a.size() == b.size(), "{} tensors are compared with {}", a.size(), b.size());
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const auto& [name, x] = a[i];
    const auto& [other_name, y] = b[i];
    check(name == other_name && x.shape() == y.shape(), "{} {} is compared with {} {}", name,
          x.shape(), other_name, y.shape());
    const auto u = x.span<float>(), v = y.span<float>();
    for (size_t j = 0; j < u.size(); ++j)
      largest = std::max(largest, std::abs(double(u[j]) - double(v[j])));
  }
  return largest;
}

std::string first_not_finite(const NamedTensors& tensors) {
  std::string found;
  for (const auto& [name, tensor] : tensors) {
    if (!found.empty() || tensor.dtype() == DType::u8 || tensor.dtype() == DType::i32) continue;
    dispatch_wide(tensor.dtype(), [&, &name = name, &tensor = tensor]<class T>() {
      const auto values = tensor.span<T>();
      const auto bad = std::ranges::find_if(values, [](T v) { return !std::isfinite(v); });
      if (bad != values.end())
        found = fmt::format("{} holds {} at element {}", name, *bad, bad - values.begin());
    });
  }
  return found;
}

void save_weights(const std::string& path, const Parameters& parameters) {
  const NamedTensors tensors = on_cpu(named_tensors(parameters));
  const std::string bad = first_not_finite(tensors);
  check(bad.empty(), "{} is not written, because {}: lower the learning rate, or clip the gradient",
        path, bad);
  write_safetensors(path, tensors, {{"format", "pt"}});
}

void load_weights(const std::string& path, Parameters& parameters) {
  // PyTorch's BatchNorm counts its batches, in a type of its own; nothing here depends on that.
  const Wanted wanted_in_file = [](const std::string& name) {
    return !name.ends_with("num_batches_tracked");
  };
  std::map<std::string, Tensor> found;
  for (const auto& [name, tensor] :
       read_safetensors(path, Category::parameters, nullptr, wanted_in_file))
    found[name] = widened(tensor);
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
  }
  for (const auto& [name, tensor] : found)
    if (std::ranges::none_of(wanted, [&](const auto& k) { return k.first == name; }))
      problems += fmt::format("\n  {} {} is not in the model", name, tensor.shape());
  check(problems.empty(),
        "{} does not fit the model (is it the one that the file was saved from?):{}", path,
        problems);
  const std::string bad = first_not_finite({found.begin(), found.end()});
  check(bad.empty(), "{}: {}: training cannot start from it", path, bad);
  for (const auto& [name, tensor] : wanted) tensor.copy_from(found.at(name));
  round_copies(parameters);
}

}  // namespace accrue
