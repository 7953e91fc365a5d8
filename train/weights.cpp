#include "train/weights.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "core/inside.h"
#include "data/safetensors.h"
#include "kernels/step/round_copies.h"

namespace accrue {

NamedTensors detail::named_tensors(const Parameters& parameters) {
  NamedTensors tensors;
  for (const auto& entry : parameters.all_entries())
    tensors.emplace_back(entry.name, entry.tensor.detach());
  for (const auto& buffer : parameters.buffer_entries())
    tensors.emplace_back(buffer.name, buffer.tensor);
  return tensors;
}

NamedTensors detail::on_cpu(NamedTensors tensors) {
  for (auto& [name, tensor] : tensors)
    if (tensor.device() == Device::cuda) tensor = tensor.to(Device::cpu);
  return tensors;
}

double detail::largest_difference(const NamedTensors& a, const NamedTensors& b) {
  check(a.size() == b.size(), "{} tensors are compared with {}", a.size(), b.size());
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const auto& [name, x] = a[i];
    const auto& [other_name, y] = b[i];
    check(name == other_name && x.shape() == y.shape(), "{} {} is compared with {} {}", name,
          x.shape(), other_name, y.shape());
    dispatch_wide(x.dtype(), [&, &x = x, &y = y]<class T>() {
      const auto u = x.span<T>(), v = y.span<T>();
      for (size_t j = 0; j < u.size(); ++j)
        largest = std::max(largest, std::abs(double(u[j]) - double(v[j])));
    });
  }
  return largest;
}

std::string detail::first_not_finite(const NamedTensors& tensors) {
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

void save_weights(const std::string& path, const Parameters& parameters, const Metadata& metadata) {
  const NamedTensors tensors = on_cpu(named_tensors(parameters));
  const std::string bad = first_not_finite(tensors);
  check(bad.empty(), "{} is not written, because {}: lower the learning rate, or clip the gradient",
        path, bad);
  Metadata all = metadata;
  all["format"] = "pt";
  write_safetensors(path, tensors, all);
}

bool detail::is_weight(const std::string& name) {
  return !(name.ends_with("num_batches_tracked") || name.ends_with(".attn.bias") ||
           name.ends_with(".attn.masked_bias"));
}

bool detail::is_of_adapter(const std::string& name) {
  return name.ends_with(".lora_A.weight") || name.ends_with(".lora_B.weight");
}

namespace {

// The prefix that nn.DataParallel, Lightning or compile() put before all names.
std::string common_prefix(const SafetensorsHeader& header) {
  for (const std::string prefix : {"module.", "model.", "_orig_mod."})
    if (!header.entries.empty() && std::ranges::all_of(header.entries, [&](const auto& e) {
          return e.name.starts_with(prefix);
        }))
      return prefix;
  return {};
}

bool converts(DType from, DType to) {
  return from == to || (is_floating(from) && (to == DType::f32 || to == DType::f64));
}

using Tensors = std::map<std::string, Tensor>;

// The first word of all the model's names, "transformer.", if the file's names lack it but are
// otherwise the model's, as in the first files of GPT-2; otherwise nothing.
std::string word_left_out(const SafetensorsHeader& header, const Tensors& wanted) {
  const std::string& first = wanted.begin()->first;
  const std::string word = first.substr(0, first.find('.') + 1);
  const bool of_all =
      std::ranges::all_of(wanted, [&](const auto& t) { return t.first.starts_with(word); });
  const bool is_wanted = std::ranges::any_of(
      header.entries, [&](const auto& e) { return wanted.contains(word + e.name); });
  return of_all && is_wanted ? word : "";
}

void check_unwrapped(const std::string& path, const SafetensorsHeader& header,
                     const Tensors& wanted) {
  const std::string prefix = common_prefix(header);
  check(
      prefix.empty() || wanted.begin()->first.starts_with(prefix),
      "{}: every name begins with '{}', which wrappers of PyTorch put there: save the state_dict() "
      "of what they wrap, or rename: {{k.removeprefix('{}'): v for k, v in state.items()}}",
      path, prefix, prefix);
}

// The head `name` in the file, if all its tensors match the model's except for the number of
// classes.
std::optional<OtherHead> other_head(const std::string& name, const SafetensorsHeader& header,
                                    const Tensors& wanted) {
  std::set<std::pair<int64_t, int64_t>> classes;  // in the file, in the model
  const auto is_of_head = [&](const std::string& tensor) { return layer_of(tensor) == name; };
  int64_t missing =
      std::ranges::count_if(wanted, [&](const auto& tensor) { return is_of_head(tensor.first); });
  for (const auto& [tensor, dtype, shape] : header.entries) {
    const auto it = wanted.find(tensor);
    if (it == wanted.end() || !is_of_head(tensor)) continue;
    const Shape& here = it->second.shape();
    const bool alike = shape.rank() > 0 && shape.rank() == here.rank() &&
                       shape.with(0, here[0]) == here && converts(dtype, it->second.dtype());
    if (!alike) return std::nullopt;
    classes.emplace(shape[0], here[0]);
    --missing;
  }
  if (missing != 0 || classes.size() != 1) return std::nullopt;
  const auto [in_file, here] = *classes.begin();
  return OtherHead{name, in_file, here};
}

// Throws an Error that names every difference, unless the file has exactly the wanted tensors.
void check_fits(const std::string& path, const SafetensorsHeader& header, const Tensors& wanted) {
  std::string problems;
  std::set<std::string> found;
  for (const auto& [name, dtype, shape] : header.entries) {
    found.insert(name);
    const auto it = wanted.find(name);
    if (it == wanted.end()) problems += fmt::format("\n  {} {} is not in the model", name, shape);
    else if (it->second.shape() != shape || !converts(dtype, it->second.dtype()))
      problems += fmt::format("\n  {} is {} {}, expected {} {}", name, accrue::name(dtype), shape,
                              accrue::name(it->second.dtype()), it->second.shape());
  }
  for (const auto& [name, tensor] : wanted)
    if (!found.contains(name))
      problems += fmt::format("\n  {} {} is missing", name, tensor.shape());
  check(problems.empty(),
        "{} does not fit the model (is it the one that the file was saved from?):{}", path,
        problems);
}

void check_finite(const std::string& path, const std::string& name, int64_t first,
                  const Tensor& piece) {
  dispatch_floating(piece.dtype(), [&]<class T>() {
    const auto values = piece.span<T>();
    const auto bad = std::ranges::find_if(values, [](T v) { return !std::isfinite(widen(v)); });
    if (bad != values.end())
      fail("{}: {} holds {} at element {}: expected finite weights", path, name, widen(*bad),
           first + (bad - values.begin()));
  });
}

std::string head_of(const Parameters& parameters) {
  check(!parameters.all_entries().empty(), "the network has no weights: expected some");
  return layer_of(parameters.all_entries().back().name);
}

// Reads every tensor if `new_head` is empty.
std::optional<OtherHead> read_weights(const std::string& path, Parameters& parameters,
                                      std::optional<NewHead> new_head) {
  const NamedTensors all = named_tensors(parameters);
  Tensors wanted(all.begin(), all.end());
  SafetensorsHeader header = read_safetensors_header(path, is_weight);
  check_unwrapped(path, header, wanted);
  const std::string word = word_left_out(header, wanted);
  for (auto& entry : header.entries) entry.name = word + entry.name;
  std::optional<OtherHead> other;
  if (new_head && !parameters.all_entries().empty())
    other = other_head(head_of(parameters), header, wanted);
  if (other && other->classes_in_file == other->classes && *new_head == NewHead::of_other_size)
    other.reset();
  const bool lacks_adapters = new_head && std::ranges::none_of(header.entries, [](const auto& e) {
                                return is_of_adapter(e.name);
                              });
  const auto is_read = [&](const std::string& name) {
    return is_weight(name) && !(other && layer_of(name) == other->name) &&
           !(lacks_adapters && is_of_adapter(name));
  };
  std::erase_if(header.entries, [&](const auto& entry) { return !is_read(entry.name); });
  std::erase_if(wanted, [&](const auto& tensor) { return !is_read(tensor.first); });
  check_fits(path, header, wanted);
  const auto is_read_there = [&](const std::string& name) { return is_read(word + name); };
  read_safetensors_pieces(path, is_read_there,
                          [&](const std::string& name, int64_t first, const Tensor& piece) {
                            check_finite(path, name, first, piece);
                          });
  read_safetensors_pieces(
      path, is_read_there, [&](const std::string& name, int64_t first, const Tensor& piece) {
        const Tensor& to = wanted.at(word + name);
        copy_converted(to.reshape({to.numel()}).slice(first, first + piece.numel()), piece);
      });
  round_copies(parameters);
  return other;
}

}  // namespace

void detail::copy_converted(Tensor to, const Tensor& from) {
  if (to.dtype() == from.dtype()) return to.copy_from(from);
  const Tensor host = to.device() == Device::cpu
                          ? to
                          : Tensor::empty(to.shape(), to.dtype(), Device::cpu, Category::data);
  dispatch_floating(from.dtype(), [&]<class From>() {
    dispatch_floating(to.dtype(), [&]<class To>() {
      std::ranges::transform(from.span<From>(), host.span<To>().begin(),
                             [](From x) { return To(widen(x)); });
    });
  });
  if (to.device() != Device::cpu) to.copy_from(host);
}

bool detail::holds_float64(const std::string& path) {
  const SafetensorsHeader header = read_safetensors_header(path, is_weight);
  return std::ranges::any_of(header.entries, [](const auto& e) { return e.dtype == DType::f64; });
}

void detail::check_weights_fit(const std::string& path, const NamedTensors& tensors,
                               const Parameters& parameters) {
  SafetensorsHeader header;
  for (const auto& [name, tensor] : tensors)
    header.entries.push_back({name, tensor.dtype(), tensor.shape()});
  const NamedTensors all = named_tensors(parameters);
  check_fits(path, header, {all.begin(), all.end()});
}

void load_weights(const std::string& path, Parameters& parameters) {
  read_weights(path, parameters, std::nullopt);
}

std::optional<OtherHead> load_pretrained(const std::string& path, Parameters& parameters,
                                         NewHead new_head) {
  return read_weights(path, parameters, new_head);
}

int64_t detail::classes_of_head(const std::string& path, const Parameters& parameters) {
  const NamedTensors all = named_tensors(parameters);
  const std::string name = head_of(parameters);
  const auto head =
      other_head(name, read_safetensors_header(path, is_weight), {all.begin(), all.end()});
  check(head.has_value(), "{} has no layer {} that answers with classes: is it of another model?",
        path, name);
  return head->classes_in_file;
}

}  // namespace accrue
