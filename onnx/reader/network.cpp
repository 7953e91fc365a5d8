#include "onnx/reader/network.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <ranges>

#include "core/inside.h"
#include "kernels/step/round_copies.h"
#include "onnx/reader/passes.h"
#include "onnx/reader/walk.h"

namespace accrue {

struct OnnxNetwork::Content {
  Content(std::shared_ptr<const OnnxFile> file, OnnxReading reading);

  std::shared_ptr<const OnnxFile> file;
  OnnxReading reading;
  std::vector<Input> inputs{};
  std::vector<std::string> outputs{};
  std::map<std::string, Shape> output_shapes{};
  std::vector<Weight> weights{};
  std::vector<std::string> constants{};
  std::unique_ptr<OnnxRecipe> recipe{};
  std::string missing{};  // why there is no recipe yet

  const OnnxRecipe& made() const {
    check(missing.empty(), "{}", missing);
    return *recipe;
  }

 private:
  std::optional<int64_t> fixed_samples() const;
  void find_outputs();
  void find_inputs(const std::set<std::string>& needed);
  void add_inputs(OnnxWalk& walk) const;
  void add_outputs(OnnxWalk& walk);
  void find_weights(const std::vector<OnnxNode>& nodes, const std::set<std::string>& trained);
  void add_notes(const std::vector<OnnxNode>& nodes);
  std::string of_samples(const OnnxNode& node) const;
  std::string outputs_without(const OnnxNode& node, const std::vector<OnnxNode>& nodes) const;
};

namespace {

std::set<std::string> names_of(const std::vector<std::string>& names) {
  return {names.begin(), names.end()};
}

// The first few of these names.
std::string listed(const std::vector<std::string>& names) {
  constexpr size_t most = 6;
  const size_t shown = names.size() > most ? most - 1 : names.size();
  const std::string first =
      fmt::format("{}", fmt::join(names.begin(), names.begin() + ptrdiff_t(shown), ", "));
  return shown == names.size() ? first : fmt::format("{} and {} more", first, names.size() - shown);
}

}  // namespace

// Inputs and outputs

void OnnxNetwork::Content::find_outputs() {
  for (const OnnxValueInfo& each : file->outputs)
    if (reading.outputs.empty()) outputs.push_back(each.name);
  if (reading.outputs.empty()) return;
  std::vector<std::string> known;
  for (const OnnxValueInfo& each : file->outputs) known.push_back(each.name);
  for (const OnnxNode& node : file->nodes)
    known.insert(known.end(), node.outputs.begin(), node.outputs.end());
  for (const std::string& name : reading.outputs) {
    check(!name.empty() && std::ranges::find(known, name) != known.end(),
          "[onnx] nothing in {} gives the output '{}': expected one of {}", file->path.string(),
          name, fmt::join(file->outputs | std::views::transform(&OnnxValueInfo::name), ", "));
    check(std::ranges::find(outputs, name) == outputs.end(),
          "[onnx] the output '{}' is wanted twice: expected it once", name);
    outputs.push_back(name);
  }
}

void OnnxNetwork::Content::find_inputs(const std::set<std::string>& needed) {
  for (const auto& [name, shape] : reading.samples)
    check(std::ranges::find(file->inputs, name, &OnnxValueInfo::name) != file->inputs.end(),
          "[onnx] there are sizes for an input '{}', which {} does not have: expected {}", name,
          file->path.string(),
          fmt::join(file->inputs | std::views::transform(&OnnxValueInfo::name), ", "));
  for (const OnnxValueInfo& info : file->inputs) {
    if (!needed.contains(info.name)) continue;
    const bool is_whole = !is_floating(info.type) && info.type != OnnxType::undefined &&
                          info.type != OnnxType::string;
    check(is_whole || is_floating(info.type),
          "[onnx] the input '{}' is {}: expected a tensor of "
          "numbers",
          info.name, to_string(info.type));
    const auto given = reading.samples.find(info.name);
    const bool is_given = given != reading.samples.end();
    check(is_given || (info.has_shape && !info.sizes.empty()),
          "[onnx] the input '{}' has no sizes: expected the samples first", info.name);
    Input input{info.name, {}, is_whole ? DType::i32 : DType::f32, false};
    for (size_t i = 1; i < info.sizes.size(); ++i) {
      const auto* const number = std::get_if<int64_t>(&info.sizes[i]);
      input.sizes.push_back(number ? std::optional(*number) : std::nullopt);
    }
    if (is_given) {
      const auto sizes = given->second.sizes();
      bool fits = !info.has_shape || sizes.size() == input.sizes.size();
      for (size_t i = 0; i < sizes.size() && fits && info.has_shape; ++i)
        fits = !input.sizes[i] || *input.sizes[i] == sizes[i];
      check(fits,
            "[onnx] a sample of the input '{}' is {}: expected sizes that fit into {}, of "
            "which the first is the samples",
            info.name, given->second, sizes_text(info));
      input.sizes.assign(sizes.begin(), sizes.end());
    }
    double elements = 1;
    for (const auto& size : input.sizes) elements *= double(size.value_or(1));
    check(
        elements >= 1 && elements < 0x1p31,
        "[onnx] the input '{}' is {}: expected sizes from 1 on, of fewer than 2^31 elements for a "
        "sample",
        info.name, sizes_text(info));
    inputs.push_back(std::move(input));
  }
  check(!inputs.empty(), "[onnx] the outputs of {} depend on no input: expected one",
        file->path.string());
}

// Advice for a file that says a number of samples, for which nodes may have been calculated.
std::string OnnxNetwork::Content::of_samples(const OnnxNode& node) const {
  if (!recipe->fixed_samples || !onnx_converters().contains(node.full_op())) return {};
  return fmt::format(
      "; the file is for {}: if the node depends on that, export it with a dynamic batch",
      counted(*recipe->fixed_samples, "sample"));
}

// Advice for a file whose node cannot be read, if some outputs do not need the node, such as the
// probabilities beside the label of a classifier.
std::string OnnxNetwork::Content::outputs_without(const OnnxNode& node,
                                                  const std::vector<OnnxNode>& nodes) const {
  std::vector<std::string> others;
  for (const std::string& output : outputs) {
    const std::vector<OnnxNode> of_output = nodes_needed(nodes, {output});
    if (std::ranges::find(of_output, node.outputs, &OnnxNode::outputs) == of_output.end())
      others.push_back(output);
  }
  if (others.empty()) return {};
  return fmt::format("; {} can be had without this node: choose the outputs by name",
                     listed(others));
}

// The number of samples that the file says, if it says one.
std::optional<int64_t> OnnxNetwork::Content::fixed_samples() const {
  std::optional<std::variant<int64_t, std::string>> first;
  std::string of;
  for (const Input& input : inputs) {
    const auto info = std::ranges::find(file->inputs, input.name, &OnnxValueInfo::name);
    if (info->sizes.empty()) continue;
    const auto& size = info->sizes.front();
    check(!first || first->index() == size.index(),
          "[onnx] the inputs '{}' and '{}' have a number of samples and a free one: expected both "
          "the same, the samples first",
          of, input.name);
    check(!first || first->index() == 1 || *first == size,
          "[onnx] the inputs '{}' and '{}' have different numbers of samples: expected the same",
          of, input.name);
    first = size;
    of = input.name;
  }
  if (!first || first->index() == 1) return std::nullopt;
  return std::get<int64_t>(*first);
}

void OnnxNetwork::Content::add_inputs(OnnxWalk& walk) const {
  for (const Input& input : inputs) {
    const auto info = std::ranges::find(file->inputs, input.name, &OnnxValueInfo::name);
    ValueSizes sizes{.shape = {Extent::of_samples()}, .dtype = input.dtype};
    for (const auto& size : input.sizes) sizes.shape.emplace_back(*size);
    walk.add(input.name, recipe->input(input.name, info->type, std::move(sizes)));
  }
}

void OnnxNetwork::Content::add_outputs(OnnxWalk& walk) {
  for (const std::string& name : outputs) {
    const OnnxValue value = walk.value(name);
    const Extents& sizes = value.sizes.shape;
    const bool is_by_sample =
        !sizes.empty() && sizes.front() == Extent::of_samples() && value.outer == 1;
    check(is_by_sample,
          "[onnx] the output '{}' is {}: expected the samples first; choose other outputs by name",
          name, to_string(value.sizes));
    std::vector<int64_t> sample;
    for (size_t i = 1; i < sizes.size(); ++i) sample.push_back(sizes[i].number);
    output_shapes[name] = Shape(sample);
    recipe->output(value, name);
  }
}

// Weights

void OnnxNetwork::Content::find_weights(const std::vector<OnnxNode>& nodes,
                                        const std::set<std::string>& trained) {
  std::set<std::string> held;
  for (const OnnxRecipe::Held& each : recipe->weights()) {
    weights.push_back({each.name, each.shape, each.is_buffer});
    held.insert(each.name);
  }
  std::set<std::string> taken;
  for (const OnnxNode& node : nodes) taken.insert(node.inputs.begin(), node.inputs.end());
  for (const std::string& name : file->initializer_order)
    if (taken.contains(name) && !held.contains(name) && !trained.contains(name) &&
        is_floating(file->initializers.at(name).type))
      constants.push_back(name);
}

void OnnxNetwork::Content::add_notes(const std::vector<OnnxNode>& nodes) {
  std::vector<std::string> still;  // constants that may be weights: single numbers rarely are
  std::set<std::string> scales;
  for (const OnnxNode& node : nodes)
    if (node.op == "Resize" || node.op == "Upsample")
      scales.insert(node.inputs.begin() + 1, node.inputs.end());
  for (const std::string& name : constants)
    if (file->initializers.at(name).numel() > 1 && !scales.contains(name)) still.push_back(name);
  if (!still.empty())
    recipe->note(
        fmt::format("No weight slot holds the constants {}, which are not trained. If they are "
                    "weights, name them in `train`",
                    listed(still)));
  size_t convolutions = 0, with_bias = 0;
  bool has_norms = false;
  for (const OnnxNode& node : nodes) {
    has_norms |= node.op.ends_with("Normalization");
    if (node.op != "Conv") continue;
    ++convolutions;
    with_bias += node.inputs.size() > 2 && !node.inputs[2].empty();
  }
  if (convolutions >= 5 && with_bias == convolutions && !has_norms &&
      file->producer.starts_with("pytorch"))
    recipe->note(
        "The network has convolutions with biases and no norms: if it had batch norms, its export "
        "for inference has fused them. It is trained as it is. To keep them, export it by "
        "torch.onnx.export(..., training=TrainingMode.TRAINING, do_constant_folding=False)");
}

OnnxNetwork::Content::Content(std::shared_ptr<const OnnxFile> given, OnnxReading how)
    : file(std::move(given)), reading(std::move(how)) {
  find_outputs();
  const std::set<std::string> wanted = names_of(outputs);
  const std::vector<OnnxNode> nodes =
      nodes_needed(put_together(nodes_needed(file->nodes, wanted), *file, wanted), wanted);
  refuse_branches(nodes);
  std::set<std::string> needed = wanted;
  for (const OnnxNode& node : nodes) needed.insert(node.inputs.begin(), node.inputs.end());
  find_inputs(needed);
  for (const Input& input : inputs)
    if (!std::ranges::all_of(input.sizes, &std::optional<int64_t>::has_value)) {
      const auto info = std::ranges::find(file->inputs, input.name, &OnnxValueInfo::name);
      missing = fmt::format(
          "[onnx] the input '{}' is {}, whose sizes the file leaves free: expected the sizes of a "
          "sample",
          input.name, sizes_text(*info));
      return;
    }
  std::set<std::string> trained = weights_of(*file, nodes);
  for (const std::string& name : reading.train) {
    const auto found = file->initializers.find(name);
    check(found != file->initializers.end() && is_floating(found->second.type) &&
              needed.contains(name),
          "[onnx] '{}' should be trained: expected a floating initializer of {} that its outputs "
          "need",
          name, file->path.string());
    trained.insert(name);
  }
  recipe = std::make_unique<OnnxRecipe>(file->opset, fixed_samples());
  OnnxWalk walk(*file, trained, *recipe);
  add_inputs(walk);
  for (const OnnxNode& node : nodes) {
    try {
      walk.run(node, needed);
    } catch (const OutOfMemory&) {
      throw;
    } catch (const Error& error) {
      fail("{}{}{}", error.what(), outputs_without(node, nodes), of_samples(node));
    }
  }
  add_outputs(walk);
  recipe->prune();
  for (const std::string& name : recipe->truths())
    for (Input& input : inputs) input.is_truth |= input.name == name && input.dtype == DType::i32;
  find_weights(nodes, trained);
  add_notes(nodes);
}

OnnxNetwork::OnnxNetwork(std::shared_ptr<const OnnxFile> file, OnnxReading reading)
    : content_(std::make_unique<const Content>(std::move(file), std::move(reading))) {}
OnnxNetwork::~OnnxNetwork() = default;

const OnnxFile& OnnxNetwork::file() const { return *content_->file; }
const std::vector<OnnxNetwork::Input>& OnnxNetwork::inputs() const { return content_->inputs; }
const std::vector<std::string>& OnnxNetwork::outputs() const { return content_->outputs; }

Shape OnnxNetwork::output_shape(const std::string& name) const {
  content_->made();
  const auto found = content_->output_shapes.find(name);
  check(found != content_->output_shapes.end(), "[onnx] there is no output '{}': expected {}", name,
        fmt::join(content_->outputs, ", "));
  return found->second;
}

const std::vector<OnnxNetwork::Weight>& OnnxNetwork::weights() const {
  content_->made();
  return content_->weights;
}
const std::vector<std::string>& OnnxNetwork::constants() const {
  content_->made();
  return content_->constants;
}
const std::vector<std::string>& OnnxNetwork::notes() const { return content_->made().notes(); }
size_t OnnxNetwork::calls() const { return content_->made().calls(); }
std::unique_ptr<Graph> OnnxNetwork::make() const { return content_->made().make(); }

// Values

namespace {

// Copies a tensor of the file to one of the same number of elements, a type's rounding apart.
void copy_elements(const Tensor& to, const OnnxTensor& from) {
  const bool is_same = (from.type == OnnxType::f32 && to.dtype() == DType::f32) ||
                       (from.type == OnnxType::f64 && to.dtype() == DType::f64);
  Tensor host = to.device() == Device::cpu
                    ? to
                    : Tensor::empty(to.shape(), to.dtype(), Device::cpu, Category::data);
  if (is_same) {
    std::ranges::copy(from.bytes, host.host_bytes().begin());
  } else {
    const std::vector<double> numbers = from.numbers();
    dispatch_wide(to.dtype(), [&]<class T>() {
      std::ranges::transform(numbers, host.span<T>().begin(), [](double x) { return T(x); });
    });
  }
  if (to.device() != Device::cpu) to.copy_from(host);
}

template <class Visit>
void visit_entries(const Parameters& parameters, const Visit& visit) {
  for (const auto* entries : {&parameters.all_entries(), &parameters.buffer_entries()})
    for (const Parameters::Entry& entry : *entries) visit(entry);
}

}  // namespace

void OnnxNetwork::load(const Parameters& parameters) const {
  visit_entries(parameters, [&](const Parameters::Entry& entry) {
    const auto found = content_->file->initializers.find(entry.name);
    check(
        found != content_->file->initializers.end() && found->second.shape == entry.tensor.shape(),
        "[onnx] the parameter '{}' {} is not in {}: expected one of its model's", entry.name,
        entry.tensor.shape(), content_->file->path.string());
    if (!is_meta(entry.tensor.device())) copy_elements(entry.tensor, found->second);
  });
  round_copies(parameters);
}

std::string OnnxNetwork::with(const Parameters& parameters) const {
  std::map<std::string, std::vector<double>> values;
  visit_entries(parameters, [&](const Parameters::Entry& entry) {
    const Tensor host =
        entry.tensor.device() == Device::cpu ? entry.tensor : entry.tensor.to(Device::cpu);
    dispatch_wide(host.dtype(), [&]<class T>() {
      const auto elements = host.span<T>();
      values[entry.name].assign(elements.begin(), elements.end());
    });
  });
  return with_initializers(content_->file->path, values);
}

}  // namespace accrue
