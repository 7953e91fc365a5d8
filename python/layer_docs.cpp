#include "python/layer_docs.h"

#include <algorithm>
#include <vector>

#include "python/docstrings.h"

namespace accrue::python {
namespace {

// The arguments, which have the same meaning in every layer that has them.
const std::vector<ArgumentDoc>& arguments() {
  static const std::vector<ArgumentDoc> all{
      {"*layers", "Layer, list or dict of Layer",
       "Layers, one list of them, or a dictionary of layers by their names."},
      {"in_features", "int", "The size of x's last dimension."},
      {"out_features", "int", "The size of y's last dimension."},
      {"bias", "bool", "Whether a learned number is added for each channel."},
      {"device", "None", "A training chooses it for all layers."},
      {"dtype", "None", "A training chooses it for all layers, by precision."},
      {"activation", "{'none', 'relu', 'tanh'}",
       "A function that is applied to y, at no cost in memory."},
      {"num_embeddings", "int", "The number of rows."},
      {"embedding_dim", "int", "The size of a row."},
      {"padding_idx", "int, optional", "A row that begins with 0 and is not trained."},
      {"max_norm", "None", "Rows are not shortened."},
      {"norm_type", "float", "Only 2."},
      {"scale_grad_by_freq", "bool", "Only False."},
      {"sparse", "bool", "Only False."},
      {"_weight", "None", "Weights come by init of a training."},
      {"_freeze", "bool", "Only False; freeze of a training names what stays as it is."},
      {"in_channels", "int", "The channels of x."},
      {"out_channels", "int", "The channels of y."},
      {"kernel_size", "int or (int, int)",
       "Pixels of the window: one number, or rows and columns."},
      {"stride", "int or (int, int)", "Pixels from one window to the next."},
      {"padding", "int, (int, int) or {'same', 'valid'}", "Pixels of padding on each side."},
      {"dilation", "int or (int, int)", "Pixels from one element of the window to the next."},
      {"groups", "int", "Groups of channels that are convolved apart."},
      {"padding_mode", "{'zeros'}", "Others are made by pad() before the layer."},
      {"output_padding", "int or (int, int)", "Pixels more below and on the right."},
      {"norm", "{'group', 'batch', 'instance', 'none'}", "The norm after each convolution."},
      {"num_groups", "int", "How many groups the channels make."},
      {"num_channels", "int", "The channels of x."},
      {"eps", "float", "Added to the variance, or to the mean square."},
      {"affine", "bool", "Whether channels have a learned scale and shift."},
      {"normalized_shape", "int or sequence of int", "The sizes of the last dimensions."},
      {"elementwise_affine", "bool", "Whether elements have a learned scale and shift."},
      {"num_features", "int", "The channels of x."},
      {"momentum", "float", "The part of the batch's moments in the running ones."},
      {"track_running_stats", "bool",
       "Whether evaluation takes running statistics. No other value than the default."},
      {"p", "float", "The probability, from 0 to less than 1."},
      {"inplace", "bool", "Without effect: a layer writes over x where it can."},
      {"mode", "str", "As the text above says."},
      {"return_indices", "bool", "Only False."},
      {"ceil_mode", "bool", "Whether sizes are rounded up."},
      {"count_include_pad", "bool", "Whether means count the padding."},
      {"divisor_override", "None", "Means are divided by what they count."},
      {"output_size", "int or (int, int)", "Pixels of y: one number, or rows and columns."},
      {"factor", "int", "The factor on height and width."},
      {"size", "int or (int, int), optional", "The height and width of y."},
      {"scale_factor", "float or (float, float), optional", "The factor on height and width."},
      {"align_corners", "bool, optional", "Whether the corners' pixels stay in place."},
      {"recompute_scale_factor", "None", "A size says it instead."},
      {"upscale_factor", "int", "The factor on height and width."},
      {"start_dim", "int", "The first dimension to join, not 0."},
      {"end_dim", "int", "The last dimension to join."},
      {"approximate", "{'none', 'tanh'}", "How P is computed."},
      {"negative_slope", "float", "The factor below 0."},
  };
  return all;
}

struct LayerDoc {
  std::string_view name;
  const char *summary, *more;
  std::vector<std::string_view> arguments;
  const char* example;
};

const std::vector<LayerDoc>& layers() {
  static const std::vector<LayerDoc> all{
      {"Sequential",
       "Makes a network of layers one after the other.",
       "Layers one after the other, or one list of them, numbered as PyTorch's nn.Sequential "
       "numbers them; or a dict of names and layers. It is a layer itself.",
       {"*layers"},
       ">>> accrue.Sequential(accrue.Flatten(), accrue.Linear(784, 10))(accrue.input(1, 28, "
       "28))\nvalue [N, 10]"},
      {"Linear",
       "Makes a layer that multiplies rows by a matrix.",
       "Computes y = act(x W^T + b): x [N, ..., in], y [N, ..., out], weight [out, in], bias "
       "[out]. Where the last dimension is not `in`, x [N, ...] is flattened. activation: none, "
       "relu or tanh, which costs no memory of its own.",
       {"in_features", "out_features", "bias", "device", "dtype", "activation"},
       ">>> accrue.Linear(6, 3)(accrue.input(4, 6))\nvalue [N, 4, 3]"},
      {"Embedding",
       "Makes a layer that looks up rows of a table.",
       "Rows of a table by their numbers: x int32 [...], y [..., embedding_dim], weight "
       "[num_embeddings, embedding_dim]. Row padding_idx begins with 0 and is not trained.",
       {"num_embeddings", "embedding_dim", "padding_idx", "max_norm", "norm_type",
        "scale_grad_by_freq", "sparse", "_weight", "_freeze", "device", "dtype"},
       ">>> accrue.Embedding(10, 7)(accrue.input(5, dtype=\"int32\"))\nvalue [N, 5, 7]"},
      {"Conv2d",
       "Makes a convolution.",
       "Convolution: x [N, in, H, W], y [N, out, GH, GW], weight [out, in / groups, kernel, "
       "kernel], bias [out]; GH = (H + 2 padding - dilation (kernel - 1) - 1) / stride + 1. Sizes "
       "in pixels: a number, or one for rows and one for columns. padding may be \"same\" or "
       "\"valid\", too.",
       {"in_channels", "out_channels", "kernel_size", "stride", "padding", "dilation", "groups",
        "bias", "padding_mode", "device", "dtype"},
       ">>> accrue.Conv2d(3, 16, 3, padding=1)(accrue.input(3, 8, 8))\nvalue [N, 16, 8, 8]"},
      {"ConvTranspose2d",
       "Makes a transposed convolution.",
       "Transposed convolution: x [N, in, H, W], weight [in, out / groups, kernel, kernel], bias "
       "[out]; the height becomes (H - 1) stride - 2 padding + dilation (kernel - 1) + 1 + "
       "output_padding. Sizes are a number, or one for rows and one for columns.",
       {"in_channels", "out_channels", "kernel_size", "stride", "padding", "output_padding",
        "groups", "bias", "dilation", "padding_mode", "device", "dtype"},
       ">>> accrue.ConvTranspose2d(3, 16, 2, stride=2)(accrue.input(3, 8, 8))\nvalue [N, 16, 16, "
       "16]"},
      {"BasicBlock",
       "Makes a residual block of two 3x3 convolutions.",
       "A residual block of two 3x3 convolutions: x [N, in, H, W], y [N, out, H / stride, W / "
       "stride]. norm: none, group, batch or instance; with none the convolutions have a bias.",
       {"in_channels", "out_channels", "stride", "norm"},
       ">>> accrue.BasicBlock(8, 16, stride=2)(accrue.input(8, 8, 8))\nvalue [N, 16, 4, 4]"},
      {"GroupNorm",
       "Makes a layer that normalizes groups of channels.",
       "Computes y = (x - mean) / sqrt(var + eps) * weight + bias, with the mean and variance of "
       "each group of channels of a sample: x and y [N, C, ...], weight and bias [C]. activation: "
       "none, relu or tanh.",
       {"num_groups", "num_channels", "eps", "affine", "device", "dtype", "bias", "activation"},
       ">>> accrue.GroupNorm(2, 6)(accrue.input(6, 8, 8))\nvalue [N, 6, 8, 8]"},
      {"LayerNorm",
       "Makes a layer that normalizes rows.",
       "Computes y = (x - mean) / sqrt(var + eps) * weight + bias, with the mean and variance of "
       "each row: x and y [..., C], weight and bias [C]. A list of sizes stands for so many of the "
       "last dimensions.",
       {"normalized_shape", "eps", "elementwise_affine", "bias", "device", "dtype"},
       ">>> accrue.LayerNorm(6)(accrue.input(4, 6))\nvalue [N, 4, 6]"},
      {"RMSNorm",
       "Makes a layer that divides rows by their root mean square.",
       "Computes y = x / sqrt(mean of x^2 + eps) * weight, with the mean of each row: x and y "
       "[..., C], weight [C]. A list of sizes stands for so many of the last dimensions. PyTorch's "
       "eps is by default None.",
       {"normalized_shape", "eps", "elementwise_affine", "device", "dtype"},
       ">>> accrue.RMSNorm(6)(accrue.input(4, 6))\nvalue [N, 4, 6]"},
      {"BatchNorm",
       "Makes a layer that normalizes the channels of a micro-batch.",
       "Computes y = (x - mean) / sqrt(var + eps) * weight + bias, with the mean and variance of "
       "each channel in the micro-batch, so training depends on the split, unless batch_norm= says "
       "otherwise; evaluation takes running_mean and running_var: x and y [N, C, ...], weight and "
       "bias [C].",
       {"num_features", "eps", "momentum", "affine", "track_running_stats", "device", "dtype",
        "bias"},
       ">>> accrue.BatchNorm2d(3)(accrue.input(3, 8, 8))\nvalue [N, 3, 8, 8]"},
      {"InstanceNorm2d",
       "Makes a layer that normalizes each channel of a sample.",
       "Computes y = (x - mean) / sqrt(var + eps), with the mean and variance of each channel of a "
       "sample: x and y [N, C, H, W]. With affine=True then a learned scale and shift, weight and "
       "bias [C]. momentum has no effect, as in PyTorch without running statistics.",
       {"num_features", "eps", "momentum", "affine", "track_running_stats", "device", "dtype",
        "bias"},
       ">>> accrue.InstanceNorm2d(3, affine=True)(accrue.input(3, 8, 8))\nvalue [N, 3, 8, 8]"},
      {"Dropout",
       "Makes a layer that sets elements to 0 by chance.",
       "Elements become 0 with probability p, the others are divided by 1 - p. The masks depend on "
       "the sample and the epoch, not on the micro-batch. It takes no place in the numbering, and "
       "writes over x where it can.",
       {"p", "inplace"},
       ">>> accrue.Dropout(0.5)(accrue.input(6))\nvalue [N, 6]"},
      {"StochasticDepth",
       "Makes a layer that sets samples to 0 by chance.",
       "Samples become 0 with probability p, the others are divided by 1 - p, as in torchvision. "
       "Which ones depends on the sample and the epoch, not on the micro-batch.",
       {"p", "mode"},
       ">>> accrue.StochasticDepth(0.1)(accrue.input(6))\nvalue [N, 6]"},
      {"MaxPool2d",
       "Makes a layer that takes the largest pixel of each window.",
       "The largest of each kernel x kernel pixels: x [N, C, H, W]. stride is that of the kernel "
       "where none is given. Sizes are a number, or one for rows and one for columns.",
       {"kernel_size", "stride", "padding", "dilation", "return_indices", "ceil_mode",
        "activation"},
       ">>> accrue.MaxPool2d(2)(accrue.input(3, 8, 8))\nvalue [N, 3, 4, 4]"},
      {"AvgPool2d",
       "Makes a layer that takes the mean of each window of pixels.",
       "The mean of each kernel x kernel pixels: x [N, C, H, W]. stride is that of the kernel "
       "where none is given. Sizes are a number, or one for rows and one for columns.",
       {"kernel_size", "stride", "padding", "ceil_mode", "count_include_pad", "divisor_override"},
       ">>> accrue.AvgPool2d(2)(accrue.input(3, 8, 8))\nvalue [N, 3, 4, 4]"},
      {"AdaptiveAvgPool2d",
       "Makes a layer that takes means of as many windows as are wanted.",
       "Means of windows that share an image among them: x [N, C, H, W], y [N, C, GH, GW] of the "
       "given size, a number or one for rows and one for columns.",
       {"output_size"},
       ">>> accrue.AdaptiveAvgPool2d((1, 2))(accrue.input(3, 8, 8))\nvalue [N, 3, 1, 2]"},
      {"GlobalAvgPool2d",
       "Makes a layer that takes the mean of each channel.",
       "The mean of each channel: x [N, C, H, W], y [N, C, 1, 1].",
       {},
       ">>> accrue.GlobalAvgPool2d()(accrue.input(3, 8, 8))\nvalue [N, 3, 1, 1]"},
      {"UpsampleNearest",
       "Makes a layer that repeats pixels.",
       "Each pixel becomes factor x factor pixels: x [N, C, H, W].",
       {"factor"},
       ">>> accrue.UpsampleNearest(2)(accrue.input(3, 8, 8))\nvalue [N, 3, 16, 16]"},
      {"Upsample",
       "Makes a layer that resizes images.",
       "x [N, C, H, W] resized to `size`, or by `scale_factor`, each a number or that of the "
       "height and that of the width. mode: nearest, nearest-exact, bilinear or bicubic.",
       {"size", "scale_factor", "mode", "align_corners", "recompute_scale_factor"},
       ">>> accrue.Upsample(scale_factor=1.5, mode=\"bilinear\")(accrue.input(3, 8, 8))\nvalue [N, "
       "3, 12, 12]"},
      {"PixelShuffle",
       "Makes a layer that makes pixels of channels.",
       "Channels become pixels: x [N, C factor^2, H, W], y [N, C, factor H, factor W].",
       {"upscale_factor"},
       ">>> accrue.PixelShuffle(2)(accrue.input(8, 4, 4))\nvalue [N, 2, 8, 8]"},
      {"Flatten",
       "Makes a layer that makes one dimension of several.",
       "Dimensions start_dim to end_dim as one: x [N, ...], y [N, C]. It costs nothing. start_dim "
       "is not 0, the dimension of the samples.",
       {"start_dim", "end_dim"},
       ">>> accrue.Flatten()(accrue.input(3, 8, 8))\nvalue [N, 192]"},
      {"ReLU",
       "Makes the rectifier.",
       "Computes y = max(x, 0), element by element. It writes over x where it can, with any "
       "inplace.",
       {"inplace"},
       ">>> accrue.ReLU()(accrue.input(4, 6))\nvalue [N, 4, 6]"},
      {"GELU",
       "Makes the Gaussian error linear unit.",
       "Computes y = x P(z <= x) for a normal z, element by element, or its approximation by a "
       "tanh.",
       {"approximate"},
       ">>> accrue.GELU()(accrue.input(4, 6))\nvalue [N, 4, 6]"},
      {"Sigmoid",
       "Makes the logistic function.",
       "Computes y = 1 / (1 + exp(-x)), element by element.",
       {},
       ">>> accrue.Sigmoid()(accrue.input(4, 6))\nvalue [N, 4, 6]"},
      {"Tanh",
       "Makes the hyperbolic tangent.",
       "Computes y = tanh(x), element by element.",
       {},
       ">>> accrue.Tanh()(accrue.input(4, 6))\nvalue [N, 4, 6]"},
      {"SiLU",
       "Makes the sigmoid linear unit.",
       "Computes y = x / (1 + exp(-x)), element by element. It writes over x where it can, with "
       "any inplace.",
       {"inplace"},
       ">>> accrue.SiLU()(accrue.input(4, 6))\nvalue [N, 4, 6]"},
      {"LeakyReLU",
       "Makes the leaky rectifier.",
       "Computes y = x, or negative_slope x where x is negative, element by element. It writes "
       "over x where it can, with any inplace.",
       {"negative_slope", "inplace"},
       ">>> accrue.LeakyReLU()(accrue.input(4, 6))\nvalue [N, 4, 6]"},
  };
  return all;
}

}  // namespace

const char* layer_doc(std::string_view layer) {
  const LayerDoc& about = *std::ranges::find(layers(), layer, &LayerDoc::name);
  Docstring doc{.summary = about.summary,
                .more = about.more,
                .returned = "Layer",
                .returns = "Its description. Called on a value of a network it gives a value.",
                .raises = "For arguments that the layer does not take. It names them.",
                .examples = about.example};
  for (const std::string_view name : about.arguments)
    doc.parameters.push_back(*std::ranges::find(arguments(), name, &ArgumentDoc::name));
  return lasting(doc.text());
}

}  // namespace accrue::python
