// ONNX's operators of which most networks are made: convolutions, products, batch norms.

#include <algorithm>
#include <cmath>

#include "core/inside.h"
#include "onnx/reader/conversion_parts.h"

namespace accrue {
namespace {

using Values = OnnxValues;

// Convolutions and pools

// The weight of a convolution for images, of which a sequence is one row.
struct ImageWeight {
  OnnxValue value;
  Integers kernel;
};

ImageWeight image_weight(OnnxConversion& c) {
  const OnnxValue& weight = c[1];
  const int rank = c.rank(0);
  c.check(weight.rank() == rank && !OnnxConversion::samples_dimension(weight),
          "its weight is {}: expected {}, as its input has", to_string(weight.sizes),
          counted(rank, "dimension"));
  const Extents& sizes = weight.sizes.shape;
  Integers kernel;
  for (size_t i = 2; i < sizes.size(); ++i) kernel.push_back(sizes[i].number);
  c.check(c.integers("kernel_shape", kernel) == kernel,
          "its kernel_shape differs from that of its weight {}: expected the same",
          to_string(weight.sizes));
  if (rank == 4) return {weight, kernel};
  kernel.insert(kernel.begin(), 1);
  return {c.reshape(weight, {sizes[0], sizes[1], 1, sizes[2]}), kernel};
}

Values conv_of(OnnxConversion& c) {
  const int rank = c.rank(0);
  const OnnxValue image = as_image(c, c[0]);
  const ImageWeight weight = image_weight(c);
  const OnnxWindow w = window_of(c, image, rank - 2, weight.kernel);
  OnnxValue x = image;
  Integers padding = w.before;
  if (w.before != w.after || std::ranges::min(w.before) < 0) {
    x = padded(c, x, w.before, w.after);
    padding = {0, 0};
  }
  Values operands{x, weight.value};
  if (c.has(2)) operands.push_back(c[2]);
  const OnnxValue y = c.call("conv2d", operands,
                             {{"stride", w.strides},
                              {"padding", padding},
                              {"dilation", w.dilations},
                              {"groups", c.integer("group", 1)}});
  return {like_first(c, from_image(c, y, rank))};
}

// The padding that gives output_shape, or size * stride for auto_pad.
void pad_for_output(OnnxConversion& c, OnnxWindow& w, const OnnxValue& image, int places,
                    const Integers& output_padding, const std::string& rule) {
  Integers wanted = c.integers("output_shape", {});
  if (wanted.empty() && (rule == "NOTSET" || rule == "VALID")) return;
  if (std::ssize(wanted) > places) wanted.erase(wanted.begin(), wanted.end() - places);
  if (places == 1 && !wanted.empty()) wanted.insert(wanted.begin(), 1);
  for (size_t i = 0; i < 2; ++i) {
    const int64_t size = image.sizes.shape[2 + i].number;
    const int64_t out = wanted.empty() ? size * w.strides[i] : wanted[i];
    const int64_t total = (size - 1) * w.strides[i] + output_padding[i] + w.extent(i) - out;
    c.check(total >= 0, "it gives {} of {} places: expected at most {}", out, size, out + total);
    w.before[i] = rule == "SAME_UPPER" ? total / 2 : total - total / 2;
    w.after[i] = total - w.before[i];
  }
}

Values conv_transpose_of(OnnxConversion& c) {
  const int rank = c.rank(0), places = rank - 2;
  const OnnxValue image = as_image(c, c[0]);
  const ImageWeight weight = image_weight(c);
  OnnxWindow w = window_of(c, image, places, weight.kernel);
  const Integers more = for_both(c, "output_padding", places, 0);
  const std::string rule = c.text("auto_pad", "NOTSET");
  if (rule != "NOTSET") w.before = w.after = {0, 0};
  pad_for_output(c, w, image, places, more, rule);
  const bool is_symmetric = w.is_symmetric();
  const Integers none{0, 0};
  Values operands{image, weight.value};
  if (c.has(2)) operands.push_back(c[2]);
  OnnxValue y = c.call("conv_transpose2d", operands,
                       {{"stride", w.strides},
                        {"padding", is_symmetric ? w.before : none},
                        {"output_padding", more},
                        {"groups", c.integer("group", 1)},
                        {"dilation", w.dilations}});
  if (!is_symmetric) {
    const auto less = [](Integers numbers) {
      for (int64_t& each : numbers) each = -each;
      return numbers;
    };
    y = padded(c, y, less(w.before), less(w.after));
  }
  return {from_image(c, y, rank)};
}

Values max_pool_of(OnnxConversion& c) {
  c.check(!c.needs(1), "something takes the places of its maxima: expected the maxima alone");
  c.expect("storage_order", 0);
  const int rank = c.rank(0), places = rank - 2;
  OnnxValue x = as_image(c, c[0]);
  c.check(c.has("kernel_shape"), "it has no kernel_shape: expected it");
  const OnnxWindow w = window_of(c, x, places, for_both(c, "kernel_shape", places, 1));
  Integers padding = w.before;
  const bool is_wide = 2 * w.before[0] > w.kernel[0] || 2 * w.before[1] > w.kernel[1];
  if (w.before != w.after || is_wide) {
    x = padded(c, x, w.before, w.after, -HUGE_VAL);
    padding = {0, 0};
  }
  const OnnxValue y = c.call("max_pool2d", {x},
                             {{"kernel_size", w.kernel},
                              {"stride", w.strides},
                              {"padding", padding},
                              {"dilation", w.dilations},
                              {"ceil_mode", c.integer("ceil_mode", 0) != 0}});
  return {like_first(c, from_image(c, y, rank))};
}

Values global_average_pool_of(OnnxConversion& c) {
  if (c.rank(0) == 4) {
    as_image(c, c[0]);
    return {like_first(c, c.call("adaptive_avg_pool2d", {c[0]}, {{"output_size", int64_t{1}}}))};
  }
  c.check(c.rank(0) >= 3, "its input is {}: expected places behind samples and channels",
          to_string(c[0].sizes));
  Integers places;
  for (int d = 2; d < c.rank(0); ++d) places.push_back(d);
  c.keep_apart(c[0], {places.begin(), places.end()});
  return {like_first(c, c.call("mean", {c[0]}, {{"dim", places}, {"keepdim", true}}))};
}

// Products

OnnxValue turned(OnnxConversion& c, const OnnxValue& x, bool turns) {
  if (!turns) return x;
  return OnnxConversion::typed(
      c.call("transpose", {x}, {{"dim0", int64_t{0}}, {"dim1", int64_t{1}}}), x.type);
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
    return {like_first(c, c.call("linear", operands))};
  }
  OnnxValue y = times(c, c.call("matmul", {a, turned(c, c[1], turns_b)}), alpha);
  if (has_bias) y = c.call("add", {y, times(c, c[2], beta)});
  return {like_first(c, y)};
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
  return {like_first(c, c.reshape(y, shape))};
}

}  // namespace

void detail::add_onnx_network_conversions(OnnxConverters& converters) {
  converters.insert({{"Conv", {conv_of, {1, 2}}},
                     {"ConvTranspose", {conv_transpose_of, {1, 2}}},
                     {"MaxPool", {max_pool_of}},
                     {"GlobalAveragePool", {global_average_pool_of}},
                     {"Gemm", {gemm_of, {1, 2}}},
                     {"BatchNormalization", {batch_norm_of, {1, 2}}}});
}

}  // namespace accrue
