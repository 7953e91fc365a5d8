// The list of ops that graphs can call: a row for each, with PyTorch's name and signature where
// PyTorch has it.

#include <cmath>
#include <numeric>

#include "core/inside.h"
#include "kernels/adaptive_pool.h"
#include "kernels/arithmetic.h"
#include "kernels/attention.h"
#include "kernels/causal_attention.h"
#include "kernels/concat.h"
#include "kernels/conv2d.h"
#include "kernels/conv_transpose2d.h"
#include "kernels/crop_or_pad.h"
#include "kernels/dropout.h"
#include "kernels/embedding.h"
#include "kernels/linear.h"
#include "kernels/norm.h"
#include "kernels/one_hot.h"
#include "kernels/pixel_shuffle.h"
#include "kernels/pointwise.h"
#include "kernels/pool.h"
#include "kernels/rearrange.h"
#include "kernels/resize.h"
#include "kernels/scale_add.h"
#include "kernels/self_attention.h"
#include "kernels/swiglu.h"
#include "kernels/upsample.h"
#include "layers/graph_ops.h"

namespace accrue {
namespace {

using Ops = std::vector<GraphOp>;

Shape with_last(const Shape& shape, int64_t size) { return shape.with(shape.rank() - 1, size); }

Shape as_rows(const Shape& shape) {
  check(shape.rank() >= 1, "rows of a tensor {}: expected at least one dimension", shape);
  return {shape.numel(0, shape.rank() - 1), shape[-1]};
}

// Products and convolutions

Tensor linear_of_rows(OpCall& c) {
  const Shape shape = c[0].shape(), rows = as_rows(shape);
  Tensor x = c.take(0), y;
  x = x.reshape(rows);
  if (c.where.formula) {
    y = linear_then(*c.where.formula, x, c[1], c[2]);
  } else if (c.operands().size() > 3) {
    Tensor a = c.take(3);
    a = a.reshape({rows[0], c[1].size(0)});
    y = add_linear(std::move(a), x, c[1], c[2]);
  } else {
    y = linear(x, c[1], c[2]);
  }
  const int64_t O = y.size(1);
  return y.reshape(with_last(shape, O));
}

Tensor conv2d_of(OpCall& c) {
  return conv2d(c[0], c[1], c[2],
                {c.axes("stride"), c.axes("padding"), c.axes("dilation"), c.integer("groups")});
}

Tensor conv_transpose2d_of(OpCall& c) {
  return conv_transpose2d(c[0], c[1], c[2],
                          {c.axes("stride"), c.axes("padding"), c.axes("output_padding"),
                           c.integer("groups"), c.axes("dilation")});
}

Tensor embedding_of(OpCall& c) {
  const Shape shape = c[0].shape();
  std::optional<int64_t> padding;
  if (c.has("padding_idx")) padding = c.integer("padding_idx");
  if (padding && *padding < 0) *padding += c[1].size(0);
  const Tensor y = embedding(c[1], c[0].reshape({shape.numel()}), {}, padding);
  std::vector<int64_t> sizes(shape.sizes().begin(), shape.sizes().end());
  sizes.push_back(y.size(1));
  return y.reshape(Shape(sizes));
}

void add_products(Ops& ops) {
  ops.push_back(row_of("linear(input, weight: weight, bias: weight = None)", linear_of_rows));
  ops.push_back(row_of("matmul(input, other)", [](OpCall& c) { return matmul(c[0], c[1]); }));
  ops.push_back(
      row_of("conv2d(input, weight: weight, bias: weight = None, stride: ints = 1, "
             "padding: ints = 0, dilation: ints = 1, groups: int = 1)",
             conv2d_of));
  ops.push_back(
      row_of("conv_transpose2d(input, weight: weight, bias: weight = None, "
             "stride: ints = 1, padding: ints = 0, output_padding: ints = 0, "
             "groups: int = 1, dilation: ints = 1)",
             conv_transpose2d_of));
  ops.push_back(row_of("embedding(input, weight: weight, padding_idx: int = None)", embedding_of));
}

// Norms

Tensor layer_norm_of(OpCall& c) {
  const Shape shape = c[0].shape();
  check(c.integers("normalized_shape") == Integers{shape[-1]},
        "[layer_norm] normalized_shape is not the last dimension of {}: expected ({},)", shape,
        shape[-1]);
  return layer_norm(c.take(0), c[1], c[2], c.number("eps"));
}

Tensor rms_norm_of(OpCall& c) {
  const Shape shape = c[0].shape();
  check(c.integers("normalized_shape") == Integers{shape[-1]},
        "[rms_norm] normalized_shape is not the last dimension of {}: expected ({},)", shape,
        shape[-1]);
  return rms_norm(c.take(0), c[1], c.number("eps"));
}

Tensor group_norm_of(OpCall& c) {
  return group_norm(c.take(0), c.integer("num_groups"), c[1], c[2], Activation::none,
                    c.number("eps"));
}

// By the statistics of the micro-batch, or of the batch that it is a part of, in training; else by
// the running ones, and where its weights are fixed.
Tensor batch_norm_of(OpCall& c) {
  const RunningStatistics running{.mean = c[1], .var = c[2], .momentum = c.number("momentum")};
  const double eps = c.number("eps");
  const Activation activation = c.where.activation;
  if (c.where.is_fixed || !c.flag("training") || !c.where.pass.training())
    return batch_norm(c[0], c[3], c[4], running, NormMode::eval, eps, activation);
  if (JoinedBatch* const batch = c.where.pass.batch)
    return batch_norm(c[0], c[3], c[4], running, *batch, c.where.node, eps, activation);
  return batch_norm(c[0], c[3], c[4], running, NormMode::train, eps, activation);
}

void add_norms(Ops& ops) {
  ops.push_back(
      row_of("layer_norm(input, normalized_shape: ints, weight: weight = None, "
             "bias: weight = None, eps: float = 1e-5)",
             layer_norm_of));
  ops.push_back(
      row_of("rms_norm(input, normalized_shape: ints, weight: weight = None, "
             "eps: float = 1e-6)",
             rms_norm_of));
  ops.push_back(
      row_of("group_norm(input, num_groups: int, weight: weight = None, "
             "bias: weight = None, eps: float = 1e-5)",
             group_norm_of));
  ops.push_back(
      row_of("instance_norm(input, weight: weight = None, bias: weight = None, "
             "eps: float = 1e-5)",
             [](OpCall& c) { return instance_norm(c[0], c[1], c[2], c.number("eps")); }));
  ops.push_back(
      row_of("batch_norm(input, running_mean: weight, running_var: weight, "
             "weight: weight = None, bias: weight = None, training: bool = True, "
             "momentum: float = 0.1, eps: float = 1e-5) -> activated",
             batch_norm_of));
}

// Element by element

Tensor gelu_of(OpCall& c) {
  const std::string& kind = c.text("approximate");
  check(kind == "none" || kind == "tanh", "[gelu] approximate is '{}': expected none or tanh",
        kind);
  return kind == "tanh" ? gelu_tanh(c.take()) : gelu(c.take());
}

Tensor add_of(OpCall& c) {
  if (c.where.activation == Activation::none) return add(c.take(0), c[1]);
  const bool are_alike = c[0].shape() == c[1].shape() && c[0].dtype() == c[1].dtype();
  return are_alike ? add_relu(c.take(0), c[1]) : relu(add(c.take(0), c[1]));
}

Tensor dropout_of(OpCall& c) {
  const double p = c.number("p");
  const Pass& pass = c.where.pass;
  if (p == 0 || !pass.drops_out()) return c.take();
  const Shape& shape = c[0].shape();
  const int64_t first = pass.begin * shape.numel(2, shape.rank());
  return dropout(c.take(), p, {pass.seed, c.where.number, pass.epoch, pass.samples, first});
}

void add_elementwise(Ops& ops) {
  ops.push_back(row_of("relu(input)", [](OpCall& c) { return relu(c.take()); }));
  ops.push_back(row_of("gelu(input, approximate: str = 'none')", gelu_of));
  ops.push_back(row_of("sigmoid(input)", [](OpCall& c) { return sigmoid(c.take()); }));
  ops.push_back(row_of("tanh(input)", [](OpCall& c) { return tanh(c.take()); }));
  ops.push_back(row_of("silu(input)", [](OpCall& c) { return silu(c.take()); }));
  ops.push_back(row_of("leaky_relu(input, negative_slope: float = 0.01)",
                       [](OpCall& c) { return leaky_relu(c.take(), c.number("negative_slope")); }));
  ops.push_back(row_of("add(input, other) -> activated", add_of));
  ops.push_back(row_of("mul(input, other)", [](OpCall& c) { return mul(c.take(0), c[1]); }));
  ops.push_back(row_of("scale(input, factor: float)",
                       [](OpCall& c) { return scale(c.take(), c.number("factor")); }));
  ops.push_back(row_of("dropout(input, p: float = 0.5) -> random", dropout_of));
  ops.push_back(row_of("stochastic_depth(input, p: float) -> random", [](OpCall& c) {
    const double p = c.number("p");
    const Pass& pass = c.where.pass;
    if (p == 0 || !pass.drops_out()) return c.take();
    return stochastic_depth(c.take(), p, {pass.seed, c.where.number, pass.epoch, pass.samples});
  }));
  ops.push_back(row_of("swiglu(gate, up)", [](OpCall& c) { return swiglu(c[0], c[1]); }));
  ops.push_back(row_of("scale_add(input, gamma: weight, other)",
                       [](OpCall& c) { return scale_add(c[0], c[1], c[2]); }));
}

// Images

ResizeMode resize_mode_of(const std::string& name) {
  using enum ResizeMode;
  for (const ResizeMode mode : {nearest, nearest_exact, bilinear, bicubic})
    if (name == detail::name(mode)) return mode;
  fail("[interpolate] mode is '{}': expected nearest, nearest-exact, bilinear or bicubic", name);
}

Tensor interpolate_of(OpCall& c) {
  check(c.has("size") != c.has("scale_factor"),
        "[interpolate] has {} size and {} scale_factor: expected one of the two",
        c.has("size") ? "a" : "no", c.has("scale_factor") ? "a" : "no");
  const ResizeMode mode = resize_mode_of(c.text("mode"));
  const Coordinates coordinates =
      c.flag("align_corners") ? Coordinates::align_corners : Coordinates::half_pixel;
  if (!c.has("size")) {
    const double factor = c.number("scale_factor");
    if (mode == ResizeMode::nearest && factor == std::round(factor))
      return upsample_nearest(c[0], int64_t(factor));
    return resize_by(c[0], factor, factor, mode, coordinates);
  }
  const PerAxis size = c.axes("size");
  return resize(c[0], size.h, size.w, mode, coordinates);
}

Pool2dShape pool_of(const OpCall& c) {
  const PerAxis kernel = c.axes("kernel_size");
  return {kernel, c.has("stride") ? c.axes("stride") : kernel, c.axes("padding"),
          c.flag("ceil_mode")};
}

Tensor adaptive_avg_pool2d_of(OpCall& c) {
  const PerAxis size = c.axes("output_size");
  if (size == PerAxis(1)) return global_avg_pool2d(c[0]);
  return adaptive_avg_pool2d(c[0], size.h, size.w);
}

void add_of_images(Ops& ops) {
  ops.push_back(
      row_of("max_pool2d(input, kernel_size: ints, stride: ints = None, "
             "padding: ints = 0, dilation: ints = 1, ceil_mode: bool = False)",
             [](OpCall& c) {
               Pool2dShape shape = pool_of(c);
               shape.dilation = c.axes("dilation");
               return max_pool2d(c[0], shape);
             }));
  ops.push_back(
      row_of("avg_pool2d(input, kernel_size: ints, stride: ints = None, "
             "padding: ints = 0, ceil_mode: bool = False, count_include_pad: bool = True)",
             [](OpCall& c) {
               Pool2dShape shape = pool_of(c);
               shape.count_include_pad = c.flag("count_include_pad");
               return avg_pool2d(c[0], shape);
             }));
  ops.push_back(row_of("adaptive_avg_pool2d(input, output_size: ints)", adaptive_avg_pool2d_of));
  ops.push_back(
      row_of("interpolate(input, size: ints = None, scale_factor: float = None, "
             "mode: str = 'nearest', align_corners: bool = False)",
             interpolate_of));
  ops.push_back(row_of("pixel_shuffle(input, upscale_factor: int)",
                       [](OpCall& c) { return pixel_shuffle(c[0], c.integer("upscale_factor")); }));
  ops.push_back(row_of("crop(input, top: int, left: int, height: int, width: int)", [](OpCall& c) {
    return crop(c[0], c.integer("top"), c.integer("left"), c.integer("height"), c.integer("width"));
  }));
}

// Shapes

void add_of_shapes(Ops& ops) {
  ops.push_back(row_of("reshape(input, shape: sizes)",
                       [](OpCall& c) { return c[0].reshape(c.shape("shape", c[0].numel())); }));
  ops.push_back(row_of("flatten(input, start_dim: int = 0, end_dim: int = -1)", [](OpCall& c) {
    return flatten(c[0], c.dimension("start_dim"), c.dimension("end_dim"));
  }));
  ops.push_back(row_of("unsqueeze(input, dim: int)",
                       [](OpCall& c) { return unsqueeze(c[0], int(c.integer("dim"))); }));
  ops.push_back(row_of("squeeze(input, dim: int)",
                       [](OpCall& c) { return squeeze(c[0], c.dimension("dim")); }));
  ops.push_back(row_of("cat(tensors: tensors, dim: int = 0)", [](OpCall& c) {
    const int dim = c.dimension("dim");
    return concat(c.take_all(), dim);
  }));
  ops.push_back(row_of("one_hot(input, num_classes: int) -> constant", [](OpCall& c) {
    return one_hot(c[0], c.integer("num_classes"), c.where.dtype);
  }));
}

// Attention

Tensor causal_attention_of(OpCall& c) {
  const int64_t heads = c.integer("heads");
  const int64_t groups = c.has("groups") ? c.integer("groups") : heads;
  check(heads >= 1 && groups >= 1, "[causal_attention] {} heads and {} groups: expected some",
        heads, groups);
  return causal_attention(c[0], c[1], c[2], {heads, groups, c[0].size(-1) / heads});
}

Tensor attention_rows_of(OpCall& c) {
  const int64_t H = c.integer("heads"), G = c.has("groups") ? c.integer("groups") : H;
  const int64_t width = c[0].size(-1);
  check(H >= 1 && G >= 1, "[attention_rows] {} heads and {} groups: expected some", H, G);
  check(H <= width && G <= width,
        "[attention_rows] {} heads and {} groups in {}: expected no more than channels", H, G,
        c[0].shape());
  const bool is_packed = !c[1].defined();
  check(is_packed == !c[2].defined(),
        "[attention_rows] has one of key and value: expected both, or query, key and value side by "
        "side in one tensor");
  AttentionOptions options;
  if (c.flag("is_causal")) options.mask = AttentionMask::causal;
  if (c.has("scale")) options.scale = c.number("scale");
  options.key_mask = c[3];
  const int64_t size = width / (is_packed ? H + 2 * G : H);
  if (is_packed) return attention_rows(c[0], {H, G, size}, options);
  return attention_rows(c[0], c[1], c[2], {H, G, size}, options);
}

void add_attention(Ops& ops) {
  ops.push_back(
      row_of("attention_rows(query, heads: int, key = None, value = None, groups: int = None, "
             "is_causal: bool = False, scale: float = None, key_mask = None)",
             attention_rows_of));
  ops.push_back(row_of("causal_attention(query, key, value, heads: int, groups: int = None)",
                       causal_attention_of));
  ops.push_back(row_of("self_attention(query, key, value)",
                       [](OpCall& c) { return self_attention(c[0], c[1], c[2]); }));
}

}  // namespace

const std::vector<GraphOp>& detail::graph_ops() {
  static const Ops all = [] {
    Ops ops;
    for (const auto add : {add_products, add_norms, add_elementwise, add_of_images, add_of_shapes,
                           add_attention, add_general_ops})
      add(ops);
    return ops;
  }();
  return all;
}

}  // namespace accrue
