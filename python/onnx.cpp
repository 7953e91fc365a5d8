#include "python/onnx.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <map>
#include <optional>

#include "data/atomic_file.h"
#include "onnx/reader/network.h"
#include "python/arrays.h"
#include "python/network.h"
#include "train/weights.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace accrue::python {

namespace {

using OnnxSizes = std::map<std::string, std::vector<int64_t>>;

// A file, which is parsed once.
struct OnnxFileOfPython {
  std::shared_ptr<const OnnxFile> file;
};

// A network of it.
struct OnnxNetworkOfPython {
  std::shared_ptr<const OnnxNetwork> network;
  bool is_wide;  // its weights are float64
};

bool has_wide_weights(const OnnxNetwork& network) {
  const auto& initializers = network.file().initializers;
  return std::ranges::any_of(network.weights(), [&](const OnnxNetwork::Weight& weight) {
    const auto found = initializers.find(weight.name);
    return found != initializers.end() && found->second.type == OnnxType::f64;
  });
}

OnnxNetworkOfPython network_of_file(const OnnxFileOfPython& of,
                                    const std::vector<std::string>& train, const OnnxSizes& samples,
                                    const std::vector<std::string>& outputs) {
  OnnxReading reading{.train = {train.begin(), train.end()}, .outputs = outputs};
  for (const auto& [name, sizes] : samples) reading.samples.emplace(name, Shape(sizes));
  const nb::gil_scoped_release release;
  auto network = std::make_shared<const OnnxNetwork>(of.file, std::move(reading));
  for (const OnnxNetwork::Input& input : network->inputs())
    check(std::ranges::all_of(input.sizes, &std::optional<int64_t>::has_value),
          "[onnx] the file leaves sizes of the input '{}' free: expected a sample's, by data or "
          "by from_onnx(path, samples={{\"{}\": (...)}})",
          input.name, input.name);
  const bool is_wide = has_wide_weights(*network);
  return {std::move(network), is_wide};
}

Network layer_of(const OnnxNetworkOfPython& of) {
  Network made;
  made.make = [network = of.network](uint32_t&) { return network->make(); };
  for (const OnnxNetwork::Input& input : of.network->inputs()) {
    ValueSizes sizes{.shape = {Extent::of_samples()}, .dtype = input.dtype};
    for (const std::optional<int64_t>& size : input.sizes) sizes.shape.emplace_back(size.value());
    made.inputs.push_back({input.name, std::move(sizes)});
  }
  made.outputs = of.network->outputs();
  return made;
}

// A model with the file's values.
Parameters with_values(const OnnxNetworkOfPython& of, Graph& model) {
  const Parameters parameters = place(model, of.is_wide ? DType::f64 : DType::f32, Device::cpu, 0,
                                      GradientStorage::on_demand);
  of.network->load(parameters);
  return parameters;
}

nb::dict values_of_file(const OnnxNetworkOfPython& of) {
  const auto model = of.network->make();
  return arrays_of(named_tensors(with_values(of, *model)), Elements::copied);
}

// Writes the file with these weights in it.
void save_file_with(const OnnxNetworkOfPython& of, const std::string& path,
                    const nb::dict& arrays) {
  check_writable(path);
  const auto model = of.network->make();
  const Parameters parameters = with_values(of, *model);
  assign(arrays, "weights", parameters);
  write_text_atomically(path, of.network->with(parameters));
}

nb::list inputs_of_file(const OnnxFileOfPython& of) {
  nb::list all;
  for (const OnnxValueInfo& input : of.file->inputs) {
    nb::list sizes;
    for (const auto& size : input.sizes)
      std::visit([&](const auto& each) { sizes.append(nb::cast(each)); }, size);
    all.append(nb::make_tuple(input.name, to_string(input.type), nb::tuple(sizes)));
  }
  return all;
}

// The op that gives an output, and its first input, before nodes that only hand it on.
nb::tuple giver_in_file(const OnnxFileOfPython& of, std::string value) {
  for (;;) {
    const auto giver = std::ranges::find_if(of.file->nodes, [&](const OnnxNode& node) {
      return std::ranges::find(node.outputs, value) != node.outputs.end();
    });
    if (giver == of.file->nodes.end() || giver->inputs.empty()) return nb::make_tuple("", "");
    const std::string first = giver->inputs.front();
    if (giver->op != "Identity" && giver->op != "Cast") return nb::make_tuple(giver->op, first);
    value = first;
  }
}

// The inputs' names, and whether they are of whole numbers.
nb::list taken_by(const OnnxNetworkOfPython& of) {
  nb::list all;
  for (const OnnxNetwork::Input& input : of.network->inputs())
    all.append(nb::make_tuple(input.name, input.dtype == DType::i32));
  return all;
}

// The inputs of integers that must be 0 or 1.
std::vector<std::string> truths_of(const OnnxNetworkOfPython& of) {
  std::vector<std::string> names;
  for (const OnnxNetwork::Input& input : of.network->inputs())
    if (input.is_truth) names.push_back(input.name);
  return names;
}

nb::list stored_in(const OnnxNetworkOfPython& of) {
  nb::list all;
  for (const OnnxNetwork::Weight& weight : of.network->weights()) {
    nb::list sizes;
    for (const int64_t size : weight.shape.sizes()) sizes.append(size);
    all.append(nb::make_tuple(weight.name, nb::tuple(sizes), weight.is_buffer));
  }
  return all;
}

}  // namespace

void add_onnx(nb::module_& m) {
  nb::class_<OnnxNetworkOfPython>(m, "_OnnxNetwork")
      .def_prop_ro("layer", &layer_of, nb::for_getter(nb::sig("def layer(self) -> Network")))
      .def_prop_ro("inputs", &taken_by,
                   nb::for_getter(nb::sig("def inputs(self) -> list[tuple[str, bool]]")))
      .def_prop_ro("truths", &truths_of)
      .def_prop_ro("outputs", [](const OnnxNetworkOfPython& of) { return of.network->outputs(); })
      .def_prop_ro("constants",
                   [](const OnnxNetworkOfPython& of) { return of.network->constants(); })
      .def_prop_ro("notes", [](const OnnxNetworkOfPython& of) { return of.network->notes(); })
      .def_prop_ro("calls", [](const OnnxNetworkOfPython& of) { return of.network->calls(); })
      .def_prop_ro("is_wide", [](const OnnxNetworkOfPython& of) { return of.is_wide; })
      .def_prop_ro(
          "weights", &stored_in,
          nb::for_getter(nb::sig("def weights(self) -> list[tuple[str, tuple[int, ...], bool]]")))
      .def("values", &values_of_file, nb::sig("def values(self) -> dict[str, numpy.ndarray]"))
      .def("save", &save_file_with, "path"_a, "arrays"_a,
           nb::sig("def save(self, path: str, arrays: dict[str, typing.Any]) -> None"));
  nb::class_<OnnxFileOfPython>(m, "_OnnxFile")
      .def(
          "__init__",
          [](OnnxFileOfPython* self, const std::string& path) {
            const nb::gil_scoped_release release;
            new (self) OnnxFileOfPython{OnnxFile::read(path)};
          },
          "path"_a)
      .def_prop_ro("producer", [](const OnnxFileOfPython& of) { return of.file->producer; })
      .def_prop_ro("opset", [](const OnnxFileOfPython& of) { return of.file->opset; })
      .def("giver", &giver_in_file, "output"_a,
           nb::sig("def giver(self, output: str) -> tuple[str, str]"))
      .def_prop_ro("inputs", &inputs_of_file,
                   nb::for_getter(
                       nb::sig("def inputs(self) -> list[tuple[str, str, tuple[int | str, ...]]]")))
      .def("network", &network_of_file, "train"_a, "samples"_a, "outputs"_a);
}

}  // namespace accrue::python
