// ONNX's operators of which most networks are made: convolutions, products, batch norms.

#include <algorithm>
#include <cmath>

#include "core/inside.h"
#include "onnx/reader/conversion_parts.h"

namespace accrue {
namespace {

using Values = OnnxValues;

OnnxValue like(OnnxValue y, const OnnxValue& x) {
  return OnnxConversion::typed(std::move(y), x.type);
}

// Convolutions and pools

// The window of a convolution or pool of images: [rows, columns].
struct Window {
  Integers kernel, strides, dilations, before, after;
};

// Numbers for rows and columns, of which a sequence has columns alone.
Integers for_both(OnnxConversion& c, const std::string& name, int places, int64_t by_default) {
  Integers all = c.integers(name, Integers(size_t(places), by_default));
  c.check(std::ssize(all) == places, "its {} are {}: expected {}", name, to_string(OpValue(all)),
          counted(places, "number"));
  for (const int64_t each : all)
    c.check(each >= 1 && each < 1 << 30, "its {} are {}: expected numbers from 1 on", name,
            to_string(OpValue(all)));
  if (places == 1) all.insert(all.begin(), 1);
  return all;
}

// The padding for ceil(size / stride) windows.
void pad_for_same(Window& w, const OnnxValue& image, bool more_after) {
  for (size_t i : {size_t{0}, size_t{1}}) {
    const int64_t size = image.sizes.shape[2 + i].number;
    const int64_t windows = (size + w.strides[i] - 1) / w.strides[i];
    const int64_t span = (w.kernel[i] - 1) * w.dilations[i] + 1;
    const int64_t all = std::max<int64_t>(0, (windows - 1) * w.strides[i] + span - size);
    w.before[i] = more_after ? all / 2 : all - all / 2;
    w.after[i] = all - w.before[i];
  }
}

Window window_of(OnnxConversion& c, const OnnxValue& image, int places, Integers kernel) {
  Window w{.kernel = std::move(kernel),
           .strides = for_both(c, "strides", places, 1),
           .dilations = for_both(c, "dilations", places, 1),
           .before = {0, 0},
           .after = {0, 0}};
  const std::string rule = c.text("auto_pad", "NOTSET");
  const Integers pads = c.integers("pads", Integers(size_t(2 * places), 0));
  c.check(std::ssize(pads) == 2 * places, "its pads are {}: expected {}", to_string(OpValue(pads)),
          counted(2 * places, "number"));
  if (rule == "SAME_UPPER" || rule == "SAME_LOWER") {
    pad_for_same(w, image, rule == "SAME_UPPER");
  } else if (rule == "NOTSET") {
    for (int i = 0; i < places; ++i) {
      w.before[size_t(i + 2 - places)] = pads[size_t(i)];
      w.after[size_t(i + 2 - places)] = pads[size_t(i + places)];
    }
  } else {
    c.check(rule == "VALID",
            "its auto_pad is '{}': expected NOTSET, SAME_UPPER, SAME_LOWER or "
            "VALID",
            rule);
  }
  for (size_t i : {size_t{0}, size_t{1}})
    c.check(std::abs(w.before[i]) < 1 << 30 && std::abs(w.after[i]) < 1 << 30,
            "its pads are {}: expected small numbers", to_string(OpValue(pads)));
  return w;
}

Integers kernel_of_weight(const OnnxConversion& c, const OnnxValue& weight, int rank) {
  c.check(weight.rank() == rank && !OnnxConversion::samples_dimension(weight),
          "its weight is {}: expected {}, as its input has", to_string(weight.sizes),
          counted(rank, "dimension"));
  Integers kernel;
  for (int i = 2; i < rank; ++i) kernel.push_back(weight.sizes.shape[size_t(i)].number);
  return kernel;
}

Values conv_of(OnnxConversion& c) {
  const int rank = c.rank(0), places = rank - 2;
  const OnnxValue image = as_image(c, c[0]);
  OnnxValue weight = c[1];
  Integers kernel = kernel_of_weight(c, weight, rank);
  c.check(c.integers("kernel_shape", kernel) == kernel,
          "its kernel_shape differs from that of its weight {}: expected the same",
          to_string(weight.sizes));
  if (places == 1) {
    const Extents& sizes = weight.sizes.shape;
    weight = c.reshape(weight, {sizes[0], sizes[1], 1, sizes[2]});
    kernel.insert(kernel.begin(), 1);
  }
  const Window w = window_of(c, image, places, kernel);
  OnnxValue x = image;
  Integers padding = w.before;
  if (w.before != w.after || std::ranges::min(w.before) < 0) {
    x = c.call("pad", {x}, {{"pad", Integers{w.before[1], w.after[1], w.before[0], w.after[0]}}});
    padding = {0, 0};
  }
  Values operands{x, weight};
  if (c.has(2)) operands.push_back(c[2]);
  const OnnxValue y = c.call("conv2d", operands,
                             {{"stride", w.strides},
                              {"padding", padding},
                              {"dilation", w.dilations},
                              {"groups", c.integer("group", 1)}});
  return {like(from_image(c, y, rank), c[0])};
}

Values max_pool_of(OnnxConversion& c) {
  c.check(!c.needs(1), "something takes the places of its maxima: expected the maxima alone");
  c.expect("storage_order", 0);
  const int rank = c.rank(0), places = rank - 2;
  OnnxValue x = as_image(c, c[0]);
  c.check(c.has("kernel_shape"), "it has no kernel_shape: expected it");
  const Window w = window_of(c, x, places, for_both(c, "kernel_shape", places, 1));
  Integers padding = w.before;
  const bool is_wide = 2 * w.before[0] > w.kernel[0] || 2 * w.before[1] > w.kernel[1];
  if (w.before != w.after || is_wide) {
    x = c.call("pad", {x},
               {{"pad", Integers{w.before[1], w.after[1], w.before[0], w.after[0]}},
                {"value", -HUGE_VAL}});
    padding = {0, 0};
  }
  const OnnxValue y = c.call("max_pool2d", {x},
                             {{"kernel_size", w.kernel},
                              {"stride", w.strides},
                              {"padding", padding},
                              {"dilation", w.dilations},
                              {"ceil_mode", c.integer("ceil_mode", 0) != 0}});
  return {like(from_image(c, y, rank), c[0])};
}

Values global_average_pool_of(OnnxConversion& c) {
  if (c.rank(0) == 4) {
    as_image(c, c[0]);
    return {like(c.call("adaptive_avg_pool2d", {c[0]}, {{"output_size", int64_t{1}}}), c[0])};
  }
  c.check(c.rank(0) >= 3, "its input is {}: expected places behind samples and channels",
          to_string(c[0].sizes));
  Integers places;
  for (int d = 2; d < c.rank(0); ++d) places.push_back(d);
  c.keep_apart(c[0], {places.begin(), places.end()});
  return {like(c.call("mean", {c[0]}, {{"dim", places}, {"keepdim", true}}), c[0])};
}

// Products

OnnxValue turned(OnnxConversion& c, const OnnxValue& x, bool turns) {
  if (!turns) return x;
  return like(c.call("transpose", {x}, {{"dim0", int64_t{0}}, {"dim1", int64_t{1}}}), x);
}

Values gemm_of(OnnxConversion& c) {
  const bool turns_a = c.integer("transA", 0) != 0, turns_b = c.integer("transB", 0) != 0;
  const double alpha = meant_by(c.number("alpha", 1)), beta = meant_by(c.number("beta", 1));
  c.pass_over("broadcast");
  c.check(c.rank(0) == 2 && c.rank(1) == 2, "it multiplies {} and {}: expected matrices",
          to_string(c[0].sizes), to_string(c[1].sizes));
  const OnnxValue a = turned(c, c[0], turns_a);
  const auto samples = OnnxConversion::samples_dimension(a);
  c.keep_apart(a, {1});
  c.check(!OnnxConversion::samples_dimension(c[1]),
          "its second matrix {} has the samples in it: expected a weight", to_string(c[1].sizes));
  const bool has_bias = c.has(2) && beta != 0;
  const bool is_plain =
      alpha == 1 && beta == 1 && turns_b && samples.has_value() &&
      (!has_bias || (c[2].is_parameter && c[2].rank() == 1 && c.sizes(2)[0] == c.sizes(1)[0]));
  if (is_plain && c[1].is_parameter) {
    Values operands{a, c[1]};
    if (has_bias) operands.push_back(c[2]);
    return {like(c.call("linear", operands), c[0])};
  }
  OnnxValue y = times(c, c.call("matmul", {a, turned(c, c[1], turns_b)}), alpha);
  if (has_bias) y = c.call("add", {y, times(c, c[2], beta)});
  return {like(y, c[0])};
}

// Norms

// Nodes of training give the running statistics, too, which the network's buffers stand for.
Values batch_norm_of(OnnxConversion& c) {
  for (size_t i = 1; i < c.outputs(); ++i)
    c.check(!c.needs(i), "something takes its statistics '{}': expected its first output alone",
            c.node.outputs[i]);
  c.expect("spatial", 1);
  const bool was_marked = c.opset() < 14;
  const bool trains = was_marked
                          ? c.outputs() > 1 || (c.opset() < 7 && c.integer("is_test", 0) == 0)
                          : c.integer("training_mode", 0) != 0;
  for (const size_t i : {size_t{3}, size_t{4}})
    c.check(!trains || (c[i].is_constant() && c[i].constant->initializer()),
            "its input {} is no initializer: expected running statistics, which training changes",
            i);
  if (!trains)
    c.note(
        "Batch norms keep the file's running statistics, because it was exported for inference. "
        "Export it for training (torch.onnx.export(..., training=TrainingMode.TRAINING)) to learn "
        "by the statistics of batches");
  c.check(c.rank(0) >= 2, "its input is {}: expected samples and channels", to_string(c[0].sizes));
  const auto samples = OnnxConversion::samples_dimension(c[0]);
  c.check(!samples || *samples == 0, "its input is {}: expected samples first",
          to_string(c[0].sizes));
  OnnxValue x = c[0];
  const Extents shape = x.sizes.shape;
  if (c.rank(0) != 2 && c.rank(0) != 4) x = c.reshape(x, {shape[0], shape[1], 1, Extent(-1)});
  const OnnxValue y = c.call("batch_norm", {x, c.buffer(3), c.buffer(4), c[1], c[2]},
                             {{"training", trains},
                              {"momentum", 1 - meant_by(c.number("momentum", 0.9))},
                              {"eps", meant_by(c.number("epsilon", 1e-5))}});
  return {like(c.reshape(y, shape), c[0])};
}

}  // namespace

void detail::add_onnx_network_conversions(OnnxConverters& converters) {
  converters.insert({{"Conv", {conv_of, {1, 2}}},
                     {"MaxPool", {max_pool_of}},
                     {"GlobalAveragePool", {global_average_pool_of}},
                     {"Gemm", {gemm_of, {1, 2}}},
                     {"BatchNormalization", {batch_norm_of, {1, 2}}}});
}

}  // namespace accrue
