#include "python/layers.h"

#include <fmt/ranges.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include "layers/blocks.h"
#include "layers/layers.h"
#include "python/layer_docs.h"
#include "python/values.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace accrue::python {
namespace {

Activation activation_of(const std::string& given) {
  std::vector<std::string> names;
  for (const Activation activation : all_activations) {
    names.emplace_back(activation == Activation::none ? "none" : name(activation));
    if (given == names.back()) return activation;
  }
  fail("activation is {}: expected {}", given, fmt::join(names, ", "));
}

NormKind norm_of(const std::string& name) {
  if (name == "group") return NormKind::group;
  if (name == "batch") return NormKind::batch;
  if (name == "none") return NormKind::none;
  if (name == "instance") return NormKind::instance;
  fail("norm is {}: expected none, group, batch or instance", name);
}

// Makes one L at once, to refuse wrong arguments in the call that has them.
template <class L, class... Args>
Layer layer(Args... args) {
  L{args...};
  return {[=](uint32_t&) { return std::make_unique<L>(args...); }};
}

// Layers, or one list of them, or a dict of them by their names.
Layer sequential(const nb::args& given) {
  Layer* single = nullptr;
  const bool is_list = given.size() == 1 && !nb::try_cast(given[0], single, false) &&
                       !nb::hasattr(given[0], "_within");
  const nb::object layers = is_list ? nb::object(given[0]) : nb::object(given);
  std::vector<std::pair<std::string, Layer>> all;
  const bool have_names = nb::isinstance<nb::dict>(layers);
  for (nb::handle each : have_names ? layers.attr("items")() : layers) {
    const nb::handle layer = have_names ? nb::handle(each[1]) : each;
    Layer* found = nullptr;
    check(nb::try_cast(layer, found, false), "a network is made of layers, but there is {}{}",
          nb::cast<std::string>(nb::repr(layer)),
          nb::hasattr(layer, "_within") ? ", which is called on values: expected accrue.Network"
                                        : "");
    all.emplace_back(have_names ? nb::cast<std::string>(each[0]) : "", *found);
  }
  check(!all.empty(), "a network needs a layer: expected Sequential([Linear(784, 10)])");
  return {[all](uint32_t& dropouts) {
    auto network = std::make_unique<Sequential>();
    for (const auto& [name, layer] : all) {
      if (name.empty()) network->append(layer.make(dropouts));
      else network->append(name, layer.make(dropouts));
    }
    return network;
  }};
}

// PyTorch's layers take a device and a dtype.
void without_place(const char* layer, nb::handle device, nb::handle dtype) {
  const auto check_none = [&](const char* argument, nb::handle given, const char* setting) {
    check(given.is_none(),
          "{} with {}={}: expected None, because a training chooses it for all layers ({}=)", layer,
          argument, shown(given), setting);
  };
  check_none("device", device, "device");
  check_none("dtype", dtype, "precision");
}

void without_padding_mode(const char* layer, const std::string& mode) {
  check(mode == "zeros",
        "{} with padding_mode={}: expected zeros, and pad(x, ..., mode=\"{}\") before the layer",
        layer, mode, mode);
}

Bias bias_of(bool bias) { return bias ? Bias::learned : Bias::none; }
Affine affine_of(bool affine, bool bias = true) {
  if (!affine) return Affine::none;
  return bias ? Affine::scale_and_shift : Affine::scale;
}

// PyTorch's BatchNorm1d and BatchNorm2d, whose channels are the second dimension alike.
Layer batch_norm_layer(int64_t features, double eps, std::optional<double> momentum, bool affine,
                       bool track_running_stats, const nb::object& device, const nb::object& dtype,
                       bool bias) {
  without_place("a batch norm", device, dtype);
  check(
      momentum.has_value(),
      "momentum=None, a mean over all micro-batches, is not there: expected a number from 0 to 1");
  check(track_running_stats,
        "track_running_stats=False is not there for a batch norm: evaluation needs the statistics");
  return layer<BatchNorm>(features, eps, *momentum, affine_of(affine, bias));
}

Layer instance_norm_layer(std::optional<int64_t> features, double eps, double, bool affine,
                          bool track_running_stats, const nb::object& device,
                          const nb::object& dtype, bool bias) {
  without_place("InstanceNorm2d", device, dtype);
  check(!track_running_stats, "track_running_stats=True is not there for an instance norm");
  check(features || !affine, "an instance norm with affine=True needs num_features");
  return layer<InstanceNorm>(features.value_or(1), eps, affine_of(affine, bias));
}

using Sizes = std::variant<int64_t, std::vector<int64_t>>;
using Factors = std::variant<double, std::vector<double>>;

Shape shape_from(const Sizes& sizes) {
  if (const auto* one = std::get_if<int64_t>(&sizes)) return {*one};
  return Shape(std::get<std::vector<int64_t>>(sizes));
}

// One number for both height and width, or one for each.
template <class T>
std::pair<T, T> pair_of(std::string_view what, const std::variant<T, std::vector<T>>& given) {
  if (const auto* one = std::get_if<T>(&given)) return {*one, *one};
  const auto& both = std::get<std::vector<T>>(given);
  check(both.size() == 2, "{} has {} numbers: expected one, or height and width", what,
        both.size());
  return {both[0], both[1]};
}

Layer upsample_layer(const std::optional<Sizes>& size, const std::optional<Factors>& scale_factor,
                     const std::string& mode, std::optional<bool> align_corners,
                     std::optional<bool> recompute_scale_factor) {
  using enum ResizeMode;
  std::vector<std::string_view> names;
  std::optional<ResizeMode> found;
  for (const ResizeMode each : {nearest, nearest_exact, bilinear, bicubic}) {
    names.push_back(name(each));
    if (mode == name(each)) found = each;
  }
  check(found.has_value(), "mode is {}: expected {}", mode, fmt::join(names, ", "));
  check(!recompute_scale_factor.value_or(false),
        "recompute_scale_factor=True is not there: expected a size instead");
  check(size.has_value() != scale_factor.has_value(),
        "an upsample needs a size or a scale_factor, and not both");
  const bool is_nearest = *found == nearest || *found == nearest_exact;
  check(!is_nearest || !align_corners, "align_corners has no meaning for mode {}", mode);
  UpsampleShape shape{.mode = *found};
  if (align_corners.value_or(false)) shape.coordinates = Coordinates::align_corners;
  if (size) std::tie(shape.H, shape.W) = pair_of("size", *size);
  else std::tie(shape.rows, shape.columns) = pair_of("scale_factor", *scale_factor);
  return layer<Upsample>(shape);
}

// A layer that draws from a stream of its own in each network.
template <class L>
Layer random_layer(double p) {
  check(p >= 0 && p < 1, "p is {}: expected a number from 0 to less than 1", p);
  return {[p](uint32_t& dropouts) { return std::make_unique<L>(p, dropouts++); }};
}

// A number, or one for rows and one for columns.
using Size = std::variant<int64_t, std::pair<int64_t, int64_t>>;
PerAxis per_axis(const Size& size) {
  if (const auto* both = std::get_if<int64_t>(&size)) return *both;
  const auto [h, w] = std::get<1>(size);
  return {h, w};
}

// Padding in pixels, or "valid" for none, or "same" for a result as large as the image: what an
// odd number of pixels has more is after it, as in PyTorch.
using GivenPadding = std::variant<int64_t, std::pair<int64_t, int64_t>, std::string>;
Padding padding_of(const GivenPadding& given, PerAxis kernel, PerAxis stride, PerAxis dilation) {
  const auto* const mode = std::get_if<std::string>(&given);
  if (!mode) {
    if (const auto* both = std::get_if<int64_t>(&given)) return *both;
    const auto [h, w] = std::get<1>(given);
    return PerAxis(h, w);
  }
  check(*mode == "valid" || *mode == "same", "padding is {}: expected a number, valid or same",
        *mode);
  if (*mode == "valid") return 0;
  check(stride == 1, "padding same with stride {}: expected stride 1", stride);
  const PerAxis all(dilation.h * (kernel.h - 1), dilation.w * (kernel.w - 1));
  const PerAxis before(all.h / 2, all.w / 2);
  return {before, {all.h - before.h, all.w - before.w}};
}

// A pool's stride is that of the kernel where none is given, or 0.
Pool2dShape pool_shape(const Size& kernel, const std::optional<Size>& stride, const Size& padding,
                       bool ceil_mode, bool count_include_pad) {
  const bool has_stride = stride && per_axis(*stride) != 0;
  return {.kernel = per_axis(kernel),
          .stride = per_axis(has_stride ? *stride : kernel),
          .padding = per_axis(padding),
          .ceil_mode = ceil_mode,
          .count_include_pad = count_include_pad};
}

}  // namespace

std::string Layer::describe() const {
  uint32_t dropouts = 0;
  std::string text = make(dropouts)->describe();
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

ModelFactory Layer::factory() const {
  return [make = make] {
    uint32_t dropouts = 0;
    return make(dropouts);
  };
}

void add_layers(nb::module_& m) {
  nb::class_<Layer>(
      m, "Layer",
      "Describes a layer; each network makes its own from the description.\n\n"
      "Parameters have the names and shapes of PyTorch's layers. x and y have the "
      "type that a\ntraining's precision= says, and indices are int32. Arguments, and "
      "sizes of x, that a\nlayer does not take are an accrue.Error that names them.\n",
      nb::dynamic_attr())
      .def("__repr__", &Layer::describe)
      .def("__deepcopy__", [](nb::handle layer, nb::handle) { return nb::borrow(layer); });
  m.def("Sequential", &sequential, "layers"_a, layer_doc("Sequential"),
        nb::sig("def Sequential(*layers: Layer | typing.Iterable[Layer] | dict[str, Layer]) -> "
                "Layer"));
  m.def(
      "Linear",
      [](int64_t in, int64_t out, bool bias, const nb::object& device, const nb::object& dtype,
         const std::string& activation) {
        without_place("Linear", device, dtype);
        return layer<Linear>(in, out, activation_of(activation), InitScheme::kaiming,
                             WeightNorm::none, bias_of(bias));
      },
      "in_features"_a, "out_features"_a, "bias"_a = true, "device"_a = nb::none(),
      "dtype"_a = nb::none(), nb::kw_only(), "activation"_a = "none", layer_doc("Linear"));
  m.def(
      "Embedding",
      [](int64_t rows, int64_t features, std::optional<int64_t> padding_idx,
         const nb::object& max_norm, double norm_type, bool scale_grad_by_freq, bool sparse,
         const nb::object& weight, bool freeze, const nb::object& device, const nb::object& dtype) {
        without_place("Embedding", device, dtype);
        check(max_norm.is_none(),
              "Embedding with max_norm={}: expected None, rows are not shortened", shown(max_norm));
        check(norm_type == 2, "Embedding with norm_type={}: expected 2, since there is no max_norm",
              norm_type);
        check(!scale_grad_by_freq,
              "Embedding with scale_grad_by_freq=True: expected False, since the frequencies of a "
              "micro-batch are not those in the batch");
        check(!sparse, "Embedding with sparse=True: expected False, gradients are dense");
        check(weight.is_none(),
              "Embedding with _weight: expected None, and weights in train(init=)");
        check(!freeze,
              "Embedding with _freeze=True: expected False, and its name in train(freeze=)");
        return layer<Embedding>(rows, features, padding_idx);
      },
      "num_embeddings"_a, "embedding_dim"_a, "padding_idx"_a = nb::none(),
      "max_norm"_a = nb::none(), "norm_type"_a = 2.0, "scale_grad_by_freq"_a = false,
      "sparse"_a = false, "_weight"_a = nb::none(), "_freeze"_a = false, "device"_a = nb::none(),
      "dtype"_a = nb::none(), layer_doc("Embedding"));
  m.def(
      "Conv2d",
      [](int64_t in, int64_t out, const Size& kernel_size, const Size& stride,
         const GivenPadding& padding, const Size& dilation, int64_t groups, bool bias,
         const std::string& padding_mode, const nb::object& device, const nb::object& dtype) {
        without_place("Conv2d", device, dtype);
        without_padding_mode("Conv2d", padding_mode);
        const PerAxis kernel = per_axis(kernel_size), step = per_axis(stride),
                      apart = per_axis(dilation);
        return layer<Conv2d>(
            in, out, kernel,
            Conv2dShape{step, padding_of(padding, kernel, step, apart), apart, groups},
            InitScheme::kaiming, bias_of(bias));
      },
      "in_channels"_a, "out_channels"_a, "kernel_size"_a, "stride"_a = 1, "padding"_a = 0,
      "dilation"_a = 1, "groups"_a = 1, "bias"_a = true, "padding_mode"_a = "zeros",
      "device"_a = nb::none(), "dtype"_a = nb::none(), layer_doc("Conv2d"));
  m.def(
      "ConvTranspose2d",
      [](int64_t in, int64_t out, const Size& kernel, const Size& stride, const Size& padding,
         const Size& output_padding, int64_t groups, bool bias, const Size& dilation,
         const std::string& padding_mode, const nb::object& device, const nb::object& dtype) {
        without_place("ConvTranspose2d", device, dtype);
        without_padding_mode("ConvTranspose2d", padding_mode);
        return layer<ConvTranspose2d>(
            in, out, per_axis(kernel),
            ConvTranspose2dShape{per_axis(stride), per_axis(padding), per_axis(output_padding),
                                 groups, per_axis(dilation)},
            InitScheme::kaiming, bias_of(bias));
      },
      "in_channels"_a, "out_channels"_a, "kernel_size"_a, "stride"_a = 1, "padding"_a = 0,
      "output_padding"_a = 0, "groups"_a = 1, "bias"_a = true, "dilation"_a = 1,
      "padding_mode"_a = "zeros", "device"_a = nb::none(), "dtype"_a = nb::none(),
      layer_doc("ConvTranspose2d"));
  m.def(
      "BasicBlock",
      [](int64_t in, int64_t out, int64_t stride, const std::string& norm) {
        return layer<BasicBlock>(in, out, stride, norm_of(norm));
      },
      "in_channels"_a, "out_channels"_a, nb::kw_only(), "stride"_a = 1, "norm"_a = "group",
      layer_doc("BasicBlock"));
  m.def(
      "GroupNorm",
      [](int64_t groups, int64_t channels, double eps, bool affine, const nb::object& device,
         const nb::object& dtype, bool bias, const std::string& activation) {
        without_place("GroupNorm", device, dtype);
        return layer<GroupNorm>(groups, channels, activation_of(activation), eps,
                                affine_of(affine, bias));
      },
      "num_groups"_a, "num_channels"_a, "eps"_a = 1e-5, "affine"_a = true, "device"_a = nb::none(),
      "dtype"_a = nb::none(), nb::kw_only(), "bias"_a = true, "activation"_a = "none",
      layer_doc("GroupNorm"));
  m.def(
      "LayerNorm",
      [](const Sizes& shape, double eps, bool affine, bool bias, const nb::object& device,
         const nb::object& dtype) {
        without_place("LayerNorm", device, dtype);
        return layer<LayerNorm>(shape_from(shape), eps, affine_of(affine, bias));
      },
      "normalized_shape"_a, "eps"_a = 1e-5, "elementwise_affine"_a = true, "bias"_a = true,
      "device"_a = nb::none(), "dtype"_a = nb::none(), layer_doc("LayerNorm"));
  m.def(
      "RMSNorm",
      [](const Sizes& shape, std::optional<double> eps, bool affine, const nb::object& device,
         const nb::object& dtype) {
        without_place("RMSNorm", device, dtype);
        check(eps.has_value(),
              "RMSNorm with eps=None, which depends on the precision: expected a number");
        return layer<RmsNorm>(shape_from(shape), *eps, affine ? Affine::scale : Affine::none);
      },
      "normalized_shape"_a, "eps"_a.none() = 1e-6, "elementwise_affine"_a = true,
      "device"_a = nb::none(), "dtype"_a = nb::none(), layer_doc("RMSNorm"));
  for (const char* const name : {"BatchNorm1d", "BatchNorm2d"})
    m.def(name, &batch_norm_layer, "num_features"_a, "eps"_a = 1e-5, "momentum"_a.none() = 0.1,
          "affine"_a = true, "track_running_stats"_a = true, "device"_a = nb::none(),
          "dtype"_a = nb::none(), nb::kw_only(), "bias"_a = true, layer_doc("BatchNorm"));
  m.def("InstanceNorm2d", &instance_norm_layer, "num_features"_a = nb::none(), "eps"_a = 1e-5,
        "momentum"_a = 0.1, "affine"_a = false, "track_running_stats"_a = false,
        "device"_a = nb::none(), "dtype"_a = nb::none(), nb::kw_only(), "bias"_a = true,
        layer_doc("InstanceNorm2d"));
  m.def(
      "Dropout", [](double p, bool) { return random_layer<Dropout>(p); }, "p"_a = 0.5,
      "inplace"_a = false, layer_doc("Dropout"));
  m.def(
      "StochasticDepth",
      [](double p, const std::string& mode) {
        check(mode == "row",
              "mode is {}: expected row, since what drops whole micro-batches depends on the split",
              mode);
        return random_layer<StochasticDepth>(p);
      },
      "p"_a, "mode"_a = "row", layer_doc("StochasticDepth"));
  m.def(
      "MaxPool2d",
      [](const Size& kernel, const std::optional<Size>& stride, const Size& padding,
         const Size& dilation, bool return_indices, bool ceil_mode, const std::string& activation) {
        check(!return_indices, "MaxPool2d returns no indices: expected return_indices=False");
        Pool2dShape shape = pool_shape(kernel, stride, padding, ceil_mode, true);
        shape.dilation = per_axis(dilation);
        return layer<MaxPool2d>(shape, activation_of(activation));
      },
      "kernel_size"_a, "stride"_a = nb::none(), "padding"_a = 0, "dilation"_a = 1,
      "return_indices"_a = false, "ceil_mode"_a = false, nb::kw_only(), "activation"_a = "none",
      layer_doc("MaxPool2d"));
  m.def(
      "AvgPool2d",
      [](const Size& kernel, const std::optional<Size>& stride, const Size& padding, bool ceil_mode,
         bool count_include_pad, std::optional<int64_t> divisor_override) {
        check(!divisor_override,
              "AvgPool2d divides by what its window counts: expected "
              "divisor_override=None");
        return layer<AvgPool2d>(pool_shape(kernel, stride, padding, ceil_mode, count_include_pad));
      },
      "kernel_size"_a, "stride"_a = nb::none(), "padding"_a = 0, "ceil_mode"_a = false,
      "count_include_pad"_a = true, "divisor_override"_a = nb::none(), layer_doc("AvgPool2d"));
  m.def(
      "AdaptiveAvgPool2d",
      [](const nb::object& output_size) {
        Size size;
        check(nb::try_cast(output_size, size),
              "AdaptiveAvgPool2d with output_size={}: expected a number, or one for rows and one "
              "for columns, because None would depend on the image",
              shown(output_size));
        return layer<AdaptiveAvgPool2d>(per_axis(size));
      },
      "output_size"_a.none(), layer_doc("AdaptiveAvgPool2d"));
  m.def(
      "GlobalAvgPool2d", [] { return layer<GlobalAvgPool2d>(); }, layer_doc("GlobalAvgPool2d"));
  m.def(
      "UpsampleNearest", [](int64_t factor) { return layer<UpsampleNearest>(factor); }, "factor"_a,
      layer_doc("UpsampleNearest"));
  m.def("Upsample", &upsample_layer, "size"_a = nb::none(), "scale_factor"_a = nb::none(),
        "mode"_a = "nearest", "align_corners"_a = nb::none(),
        "recompute_scale_factor"_a = nb::none(), layer_doc("Upsample"));
  m.def(
      "PixelShuffle", [](int64_t factor) { return layer<PixelShuffle>(factor); },
      "upscale_factor"_a, layer_doc("PixelShuffle"));
  m.def(
      "Flatten",
      [](int first, int last) {
        check(
            first != 0,
            "Flatten with start_dim=0: expected another, because dimension 0 numbers the samples");
        return layer<Flatten>(first, last);
      },
      "start_dim"_a = 1, "end_dim"_a = -1, layer_doc("Flatten"));
  m.def(
      "ReLU", [](bool) { return layer<Relu>(); }, "inplace"_a = false, layer_doc("ReLU"));
  m.def(
      "GELU",
      [](const std::string& approximate) {
        check(approximate == "none" || approximate == "tanh",
              "GELU with approximate={}: expected none or tanh", approximate);
        return approximate == "tanh" ? layer<GeluTanh>() : layer<Gelu>();
      },
      "approximate"_a = "none", layer_doc("GELU"));
  m.def(
      "Sigmoid", [] { return layer<Sigmoid>(); }, layer_doc("Sigmoid"));
  m.def(
      "Tanh", [] { return layer<Tanh>(); }, layer_doc("Tanh"));
  m.def(
      "SiLU", [](bool) { return layer<Silu>(); }, "inplace"_a = false, layer_doc("SiLU"));
  m.def(
      "LeakyReLU", [](double slope, bool) { return layer<LeakyRelu>(slope); },
      "negative_slope"_a = 0.01, "inplace"_a = false, layer_doc("LeakyReLU"));
}

}  // namespace accrue::python
