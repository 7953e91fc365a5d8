#include "layers/module.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <typeinfo>

#include "core/inside.h"
#include "kernels/step/round_copies.h"

namespace accrue {
namespace {

// Far from the parameters' streams, whose numbers begin at 0.
constexpr uint64_t first_buffer_stream = uint64_t{0x6275} << 48;

bool is_within(const std::string& parameter, const std::string& name) {
  return parameter.starts_with(name) &&
         (parameter.size() == name.size() || parameter[name.size()] == '.');
}

// Marks the parameters that `freeze` names as fixed.
void fix(std::vector<Declaration>& declared, const std::vector<std::string>& freeze) {
  const std::string head = declared.empty() ? "" : layer_of(declared.back().name);
  for (const std::string& name : freeze) {
    const auto is_meant = [&](const Declaration& d) {
      return name == backbone ? !is_within(d.name, head) : is_within(d.name, name);
    };
    std::vector<std::string> known;
    for (const Declaration& d : declared)
      if (const std::string top = d.name.substr(0, d.name.find('.'));
          std::ranges::find(known, top) == known.end())
        known.push_back(top);
    check(std::ranges::any_of(declared, is_meant),
          "no parameters to freeze are called '{}': expected {}, a name "
          "within one of these, or {} (all but {})",
          name, fmt::join(known, ", "), backbone, head);
    for (Declaration& d : declared) d.fixed = d.fixed || is_meant(d);
  }
  check(freeze.empty() || !std::ranges::all_of(declared, &Declaration::fixed),
        "with {} frozen there is nothing left to train: expected less", fmt::join(freeze, ", "));
}

}  // namespace

void Module::check_new(const std::string& name, const void* member) const {
  check(member != this, "a module declares itself as '{}': expected one of its members", name);
  const auto check_each = [&](const auto& declared) {
    for (const auto& [other, known] : declared)
      check(known != member, "a member is declared as '{}' and again as '{}': expected it once",
            other, name);
  };
  check_each(parameters_);
  check_each(buffers_);
  check_each(children_);
}

namespace {

// An Error whose text names a layer.
class LayerError : public Error {
 public:
  using Error::Error;
};

}  // namespace

// Changes only plain Errors, because derived ones, such as OutOfMemory, carry more than a text.
void Module::name_in(const Error& error) const {
  if (typeid(error) == typeid(Error) && !label_.empty())
    throw LayerError(fmt::format("in layer '{}': {}", label_.text(), error.what()));
}

MemoryScope Module::scope_of(const Pass& pass) const {
  return MemoryScope(pass.training() ? Phase::forward : Phase::evaluate,
                     label_.empty() ? MemoryScope::label() : label_);
}

namespace {

// The beginning of the names within a child.
std::string within(const std::string& prefix, const std::string& child) {
  return child.empty() ? prefix : prefix + child + ".";
}

}  // namespace

void Module::visit_parameters(const ParameterVisitor& visit, const std::string& prefix) {
  for (auto& [name, parameter] : parameters_) visit(prefix + name, *parameter);
  for (auto& [name, child] : children_) child->visit_parameters(visit, within(prefix, name));
}

void Module::visit_buffers(const BufferVisitor& visit, const std::string& prefix) {
  for (auto& [name, buffer] : buffers_) visit(prefix + name, *buffer);
  for (auto& [name, child] : children_) child->visit_buffers(visit, within(prefix, name));
}

void Module::visit_modules(const ModuleVisitor& visit, const std::string& prefix) {
  for (auto& [name, child] : children_) {
    if (!name.empty()) visit(prefix + name, *child);
    child->visit_modules(visit, within(prefix, name));
  }
}

void Module::begin_window() const {
  {
    const MemoryScope scope(label_.empty() ? MemoryScope::label() : label_);
    on_begin_window();
  }
  for (const auto& [name, child] : children_) child->begin_window();
}

bool Module::is_random() const {
  return std::ranges::any_of(children_,
                             [](const auto& child) { return child.second->is_random(); });
}

void Module::label_memory(const std::string& place) {
  if (!place.empty()) label_ = children_.empty() ? place + " " + describe() : place;
  for (auto& [name, child] : children_)
    child->label_memory(place.empty() || name.empty() ? place + name : place + "." + name);
}

namespace {

// Collects the names of a model's parameters and buffers, and checks that each is unique.
class Names {
 public:
  void add(const std::string& name, const void* member) {
    const auto [known, is_new] = name_of_.emplace(member, name);
    check(is_new, "'{}' and '{}' are one parameter or buffer: expected each to be declared once",
          known->second, name);
    check(names_.insert(name).second,
          "two parameters or buffers of the model are called '{}': expected a name for each", name);
  }

 private:
  std::map<const void*, std::string> name_of_;
  std::set<std::string> names_;
};

}  // namespace

Parameters place(Module& model, DType compute, Device device, uint64_t seed,
                 GradientStorage storage, const std::vector<std::string>& freeze) {
  const DType dtype = wide(compute);
  std::vector<Declaration> declared, buffers_declared;
  Names names;
  model.visit_parameters([&](const std::string& name, Parameter& p) {
    names.add(name, &p);
    check(!p.tensor.defined(), "parameter {} is already placed on a device", name);
    p.compute = compute;
    if (p.source) return;
    declared.push_back({name, p.shape, p.fixed});
  });
  model.visit_buffers([&](const std::string& name, Buffer& b) {
    names.add(name, &b);
    buffers_declared.push_back({name, b.shape});
  });
  fix(declared, freeze);
  Parameters parameters(declared, buffers_declared, dtype, compute, device, storage);
  model.label_memory();
  const auto draw = [&](const Tensor& to, const Init& init, uint64_t stream) {
    if (is_meta(device)) return;
    const Tensor drawn = device == Device::cpu
                             ? to
                             : Tensor::empty(to.shape(), dtype, Device::cpu, Category::workspace);
    dispatch_wide(dtype, [&]<class T>() { init.fill(drawn.span<T>(), seed, stream); });
    if (device != Device::cpu) to.copy_from(drawn);
  };
  size_t number = 0;
  model.visit_parameters([&](const std::string&, Parameter& p) {
    if (p.source) {
      p.tensor = p.source(compute, device);
      return;
    }
    p.tensor = parameters.all_entries()[number].tensor;
    p.fixed = declared[number].fixed;
    draw(p.tensor, p.init, number++);
  });
  number = 0;
  model.visit_buffers([&](const std::string&, Buffer& b) {
    b.tensor = parameters.buffer_entries()[number].tensor;
    draw(b.tensor, b.init, first_buffer_stream + number++);
  });
  round_copies(parameters);
  for (int i = 0; i < Module::settling_steps; ++i) model.begin_window();
  return parameters;
}

namespace {

void check_layer(const std::unique_ptr<Layer>& layer) {
  check(layer != nullptr, "null is appended to a Sequential: expected a layer");
}

}  // namespace

void Sequential::append(std::unique_ptr<Layer> layer) {
  check_layer(layer);
  const int number = std::exchange(next_number_, next_number_ + layer->places());
  append(std::to_string(number), std::move(layer));
}

void Sequential::append(std::string name, std::unique_ptr<Layer> layer) {
  check_layer(layer);
  declare(name, *layer);
  bool has_weights = false;
  layer->visit_parameters(
      [&](const std::string&, const Parameter& p) { has_weights |= p.shape.rank() > 1; });
  if (layers_.empty() || (has_weights && last_has_weights_)) blocks_.push_back(layers_.size());
  last_has_weights_ = last_has_weights_ || has_weights;
  layers_.push_back({std::move(name), std::move(layer)});
}

namespace {

// The number of segments for n blocks.
size_t segments_of(size_t n, Recompute recompute) {
  switch (recompute) {
    case Recompute::none: return 1;
    case Recompute::sqrt: return static_cast<size_t>(std::ceil(std::sqrt(double(n))));
    case Recompute::all: break;
  }
  return n;
}

}  // namespace

Tensor detail::run_blocks(Tensor x, const Pass& pass, size_t n, const RunBlock& run) {
  const size_t segments = segments_of(n, pass.recompute);
  Pass inner = pass;
  inner.recompute = Recompute::none;
  const auto run_some = [=](Tensor y, size_t begin, size_t end, bool is_segment) {
    for (size_t block = begin; block < end; ++block)
      y = run(std::move(y), inner, block, is_segment && block + 1 == end);
    return y;
  };
  size_t begin = 0;
  // The last segment is not recomputed: backward begins there and would need at once what was
  // dropped.
  for (size_t s = 1; s < segments; ++s) {
    const size_t end = s * n / segments;
    x = accrue::recompute(
        [=](const std::vector<Tensor>& in) { return run_some(in[0], begin, end, true); },
        {std::move(x)});
    begin = end;
  }
  return run_some(std::move(x), begin, n, false);
}

Tensor Sequential::forward(Tensor x, const Pass& pass) const {
  const size_t n = blocks_.size();
  return run_blocks(std::move(x), pass, n,
                    [=, this](Tensor y, const Pass& inner, size_t block, bool) {
                      const size_t end = block + 1 < n ? blocks_[block + 1] : layers_.size();
                      return forward(std::move(y), inner, blocks_[block], end);
                    });
}

Tensor Sequential::forward(Tensor x, const Pass& pass, size_t begin, size_t end) const {
  for (size_t i = begin; i < end; ++i) x = (*layers_[i].layer)(std::move(x), pass);
  return x;
}

std::string Sequential::describe() const {
  std::string text;
  for (const auto& [name, layer] : layers_)
    text += fmt::format("{:>3}  {}\n", layer->places() > 0 ? name : "", layer->describe());
  return text;
}

}  // namespace accrue
