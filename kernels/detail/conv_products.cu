#include <functional>

#include "core/cuda.h"
#include "core/median.h"
#include "kernels/convolutions.h"
#include "kernels/detail/channel_bias.cuh"
#include "kernels/detail/conv_products.h"
#include "kernels/detail/convolution.cuh"
#include "kernels/detail/copy_shifted.h"
#include "kernels/detail/reduce.cuh"

namespace accrue::cuda {
namespace {

// target = source + beta * target; the target has the source's dtype, or its wide one.
void copy_elements(GradTarget target, View source) {
  const auto copy = [&]<class To, class From>() {
    elementwise(target.grad.as<To>(), target.beta, source.numel(), std::identity{},
                source.as<const From>());
  };
  dispatch_floating(source.dtype, [&]<class T>() {
    if (target.grad.dtype == source.dtype) copy.template operator()<T, T>();
    else copy.template operator()<Wide<T>, T>();
  });
}

// Each thread copies elements that are a grid apart; a warp's elements are neighbours in a row.
template <bool accumulate, class To, class From>
__global__ void __launch_bounds__(block_threads)
    rows_kernel(To* to, int64_t to_step, const From* from, int64_t from_step, int64_t rows,
                int64_t width) {
  for (int64_t i = first_item(); i < rows * width; i += item_stride()) {
    const int64_t row = i / width, column = i % width;
    accrue::store(to[row * to_step + column], widen(from[row * from_step + column]),
                  std::bool_constant<accumulate>{});
  }
}

// target = source + beta * target for filters [O, ...] that lie `target_step` and `source_step`
// elements apart, with dtypes as in copy_elements().
void copy_filters(GradTarget target, int64_t target_step, View source, int64_t source_step) {
  const int64_t rows = source.shape[0], width = source.shape.numel(1, 4);
  const auto copy = [&]<class To, class From>() {
    with_beta(target.beta, [&](auto accumulate) {
      enqueue(grid_over(rows * width), rows_kernel<accumulate.value, To, From>,
              target.grad.as<To>(), target_step, source.as<const From>(), source_step, rows, width);
    });
  };
  dispatch_floating(source.dtype, [&]<class T>() {
    if (target.grad.dtype == source.dtype) copy.template operator()<T, T>();
    else copy.template operator()<Wide<T>, T>();
  });
}

// to[o, s, r] = from[o, r, s] + beta * to[o, s, r] for matrices of `rows` x `columns`. Neighbouring
// threads write neighbours.
template <bool accumulate, class To, class From>
__global__ void __launch_bounds__(block_threads)
    transpose_kernel(To* to, const From* from, int64_t n, int64_t rows, int64_t columns) {
  for (int64_t i = first_item(); i < n; i += item_stride()) {
    const int64_t r = i % rows, s = i / rows % columns, o = i / rows / columns;
    accrue::store(to[i], widen(from[(o * rows + r) * columns + s]),
                  std::bool_constant<accumulate>{});
  }
}

// target[o] = the transpose of source[o], a matrix of `rows`, + beta * target[o], with dtypes as in
// copy_elements().
void transpose_filters(GradTarget target, View source, int64_t rows) {
  const int64_t n = source.numel(), columns = source.shape.numel(1, 4) / rows;
  const auto copy = [&]<class To, class From>() {
    with_beta(target.beta, [&](auto accumulate) {
      enqueue(grid_over(n), transpose_kernel<accumulate.value, To, From>, target.grad.as<To>(),
              source.as<const From>(), n, rows, columns);
    });
  };
  dispatch_floating(source.dtype, [&]<class T>() {
    if (target.grad.dtype == source.dtype) copy.template operator()<T, T>();
    else copy.template operator()<Wide<T>, T>();
  });
}

// One operand as cuDNN gets it: the given view, or a copy of it in the workspace.
struct Operand {
  View given;
  View copy = {};  // empty where it gets `given`
  PerAxis shift = 0;
  int64_t filter_step = 0;     // of filters that lie apart
  bool is_transposed = false;  // filters [O, C, KH, KW] as [O, KH, KW, C]

  bool is_whole() const { return shift == 0 && copy.shape == given.shape; }
  void* data() const { return copy.data ? copy.data : given.data; }

  void load() const {
    if (!copy.data) return;
    if (is_transposed) transpose_filters({copy, 0}, given, given.shape[1]);
    else if (filter_step > 0) copy_filters({copy, 0}, copy.shape.numel(1, 4), given, filter_step);
    else if (is_whole()) copy_elements({copy, 0}, given);
    else copy_shifted({copy, 0}, given, {-shift.h, -shift.w});
  }
  // given = copy + beta * given
  void store(float beta) const {
    if (is_transposed) transpose_filters({given, beta}, copy, given.shape.numel(2, 4));
    else if (filter_step > 0)
      copy_filters({given, beta}, filter_step, copy, copy.shape.numel(1, 4));
    else if (is_whole()) copy_elements({given, beta}, copy);
    else copy_shifted({given, beta}, copy, {shift.h, shift.w});
  }
};

// The workspace of one call. Copies take their parts from it, and the algorithm gets the rest.
class Workspace {
 public:
  explicit Workspace(View scratch) : scratch_(scratch) {}

  // Copies an operand that has another dtype, or starts between multiples of 16 bytes, which cuDNN
  // refuses.
  Operand operand(View given, DType dtype) {
    if (given.dtype == dtype && is_aligned(given.data, 16)) return {given};
    return {given, take(given.shape, dtype)};
  }
  Operand filters(View given, DType dtype, const ConvGeometry& g) {
    if (transposes_weights(g)) return {given, take(given.shape, dtype), 0, 0, true};
    if (!g.has_part_of_w()) return operand(given, dtype);
    return {given, take(given.shape, dtype), 0, g.filter_step()};
  }
  // The image as cuDNN sees it: a padded copy if `seen` is not g.
  Operand image(View given, const ConvGeometry& g, const ConvGeometry& seen) {
    if (seen == g) return operand(given, given.dtype);
    const int64_t N = given.shape[0], C = g.C;
    if (!g.has_channels_last())
      return {given, take({N, C, seen.H, seen.W}, given.dtype), g.padding};
    given.shape = {N, 1, g.H, g.W * C};  // one plane, whose columns are wide
    return {given, take({N, 1, seen.H, seen.W * C}, given.dtype),
            PerAxis(g.padding.h, g.padding.w * C)};
  }
  // The convolution with the rest of the workspace as scratch.
  CudnnConvolution convolution(const ConvGeometry& seen, int64_t N, DType dtype) const {
    return {seen, N, dtype, static_cast<size_t>(left())};
  }
  int64_t left() const { return scratch_.numel() - used_; }
  void* rest() const { return static_cast<std::byte*>(scratch_.data) + used_; }

 private:
  View take(const Shape& shape, DType dtype) {
    const View part{static_cast<std::byte*>(scratch_.data) + used_, shape, dtype, Device::cuda};
    used_ += whole_parts(shape.numel() * int64_t(size_of(dtype)));
    return part;
  }

  View scratch_;
  int64_t used_ = 0;
};

// Images [begin, end) of a call.
struct Part {
  int64_t begin, end;

  int64_t size() const { return end - begin; }
  View of(View images) const {
    const int64_t bytes = images.shape.numel(1, 4) * int64_t(size_of(images.dtype));
    images.data = static_cast<std::byte*>(images.data) + begin * bytes;
    images.shape = images.shape.with(0, size());
    return images;
  }
};

// target = left * right + beta * target, by cuDNN. Returns false, with nothing changed, if cuDNN
// cannot compute it.
template <class Product>
bool try_product(const Operand& target, float beta, const Operand& left, const Operand& right,
                 const ConvGeometry& seen, Part part, const Workspace& workspace) {
  if (workspace.left() < 0) return false;
  const CudnnConvolution c = workspace.convolution(seen, part.size(), left.given.dtype);
  if (!Product::choice(c)) return false;
  left.load();
  right.load();
  if (!Product::run(c, target.data(), target.copy.data ? 0 : beta, left.data(), right.data(),
                    workspace.rest()))
    return false;
  if (target.copy.data) target.store(beta);
  return true;
}

// Computes the images by body(part, seen), where `seen` is the geometry as cuDNN sees it. body
// returns false if cuDNN cannot compute that. Then a padded copy is tried, and after that one half
// of the images after the other, because a half takes less scratch and has fewer elements.
template <class Body>
void compute_parts(Part part, const ConvGeometry& g, const Body& body) {
  const ConvGeometry symmetric = as_symmetric(g), padded = as_padded(g);
  if (body(part, symmetric) || (symmetric != padded && body(part, padded))) return;
  check(
      part.size() > 1,
      "cuDNN has no deterministic algorithm for an image [{}, {}, {}] and weights [{}, {}, {}, "
      "{}] with stride {}, padding {}, dilation {} and {} groups, in the scratch that was planned",
      g.C, g.H, g.W, g.O, g.group_channels(), g.KH, g.KW, g.stride, g.padding, g.dilation,
      g.groups);
  const int64_t middle = part.begin + part.size() / 2;
  compute_parts({part.begin, middle}, g, body);
  compute_parts({middle, part.end}, g, body);
}

}  // namespace

void conv_gather(GradTarget grid, View image, const ConvWeights& w, View b, Activation activation,
                 const ConvGeometry& g, View scratch) {
  check(grid.beta == 0 || activation == Activation::none,
        "a convolution with an activation cannot be added to its target");
  const DType dtype = image.dtype;
  compute_parts({0, image.shape[0]}, g, [&](Part part, const ConvGeometry& seen) {
    Workspace workspace(scratch);
    const Operand x = workspace.image(part.of(image), g, seen),
                  k = workspace.filters(w.w, dtype, g),
                  y = workspace.operand(part.of(grid.grad), dtype);
    return try_product<Gather>(y, grid.beta, x, k, seen, part, workspace);
  });
  if (g.has_channels_last()) grid.grad.shape = {grid.grad.numel() / g.O, g.O};
  add_channel_bias(grid.grad, b, activation);
}

void conv_scatter(GradTarget image, View grid, const ConvWeights& w, View b, const ConvGeometry& g,
                  View scratch) {
  const DType dtype = grid.dtype;
  compute_parts({0, grid.shape[0]}, g, [&](Part part, const ConvGeometry& seen) {
    Workspace workspace(scratch);
    const Operand x = workspace.image(part.of(image.grad), g, seen),
                  k = workspace.filters(w.w, dtype, g), y = workspace.operand(part.of(grid), dtype);
    return try_product<Scatter>(x, image.beta, k, y, seen, part, workspace);
  });
  add_channel_bias(image.grad, b, Activation::none);
}

// cuDNN's weight gradient has the dtype of the images. A gradient in 16 bits goes to the workspace,
// and from there, widened, into the float32 sum over micro-batches.
void conv_correlate(GradTarget w, View grid, View image, const ConvGeometry& g, View scratch) {
  const DType dtype = grid.dtype;
  compute_parts({0, grid.shape[0]}, g, [&](Part part, const ConvGeometry& seen) {
    Workspace workspace(scratch);
    const Operand x = workspace.image(part.of(image), g, seen),
                  k = workspace.filters(w.grad, dtype, g),
                  y = workspace.operand(part.of(grid), dtype);
    return try_product<Correlate>(k, part.begin == 0 ? w.beta : 1, x, y, seen, part, workspace);
  });
}

// Does nothing, because cuDNN reads weights as they lie.
void pack_weights(View, View, Direction, const ConvGeometry&) {}

namespace {

struct Shapes {
  Shape image, grid, w;
  explicit Shapes(const Convolution& c)
      : image{c.N, c.geometry.C, c.geometry.H, c.geometry.W},
        grid{c.N, c.geometry.O, c.geometry.GH, c.geometry.GW},
        w{c.geometry.O, c.geometry.group_channels(), c.geometry.KH, c.geometry.KW} {
    if (!c.geometry.has_channels_last()) return;
    for (Shape* const shape : {&image, &grid})
      *shape = {c.N, (*shape)[2], (*shape)[3], (*shape)[1]};
  }
};

std::string name_of(cudnnConvolutionFwdAlgo_t algorithm) {
  return algorithm == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM ? "IMPLICIT_GEMM"
                                                               : "IMPLICIT_PRECOMP_GEMM";
}
std::string name_of(cudnnConvolutionBwdDataAlgo_t) { return "ALGO_1"; }
std::string name_of(cudnnConvolutionBwdFilterAlgo_t) { return "ALGO_1"; }

std::string name_of(cudnnMathType_t math) {
  switch (math) {
    case CUDNN_TENSOR_OP_MATH: return "TENSOR_OP_MATH";
    case CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION: return "TENSOR_OP_MATH_ALLOW_CONVERSION";
    case CUDNN_FMA_MATH: return "FMA_MATH";
    default: return "DEFAULT_MATH";
  }
}

// The choice for operands that are aligned like a layer's operands. Their elements are not read.
template <class Product>
ConvolutionChoice choice_with(const Convolution& c, int64_t scratch_bytes) {
  const ConvGeometry& g = c.geometry;
  const Shapes shapes(c);
  const auto view = [](const Shape& shape, DType dtype) {
    constexpr uintptr_t aligned = 256;
    return View{reinterpret_cast<void*>(aligned), shape, dtype, Device::cuda};
  };
  const DType w_dtype = c.product == ConvolutionProduct::backward_filter ? wide(c.dtype) : c.dtype;
  ConvolutionChoice result{.scratch_bytes = scratch_bytes};
  compute_parts({0, c.N}, g, [&](Part part, const ConvGeometry& seen) {
    Workspace workspace(view({scratch_bytes}, DType::u8));
    workspace.image(view(shapes.image.with(0, part.size()), c.dtype), g, seen);
    workspace.filters(view(shapes.w, w_dtype), c.dtype, g);
    if (workspace.left() < 0) return false;
    const auto* choice = Product::choice(workspace.convolution(seen, part.size(), c.dtype));
    if (!choice) return false;
    if (result.parts++ == 0) {
      result.algorithm = name_of(choice->algorithm);
      result.math = name_of(choice->math);
      result.workspace_bytes = static_cast<int64_t>(choice->bytes);
      result.padded = seen != g;
    }
    return true;
  });
  return result;
}

// x[i] from -1/2 to 1/2, unlike its neighbours. Zeros would be multiplied faster than data, because
// the device then needs less power.
template <class T>
__global__ void __launch_bounds__(block_threads) vary_kernel(T* x, int64_t n) {
  for (int64_t i = first_item(); i < n; i += item_stride())
    x[i] = T(float(uint32_t(i) * 2654435761u >> 8) * 0x1p-24f - 0.5f);
}

}  // namespace

ConvolutionChoice choice_of(const Convolution& c) {
  const int64_t bytes = conv_workspace(c, Device::cuda).numel();
  switch (c.product) {
    case ConvolutionProduct::forward: return choice_with<Gather>(c, bytes);
    case ConvolutionProduct::backward_data: return choice_with<Scatter>(c, bytes);
    case ConvolutionProduct::backward_filter: break;
  }
  return choice_with<Correlate>(c, bytes);
}

// The median of several runs.
double seconds_of(const Convolution& c) {
  const ConvGeometry& g = c.geometry;
  const Shapes shapes(c);
  const auto make = [&](const Shape& shape, DType dtype) {
    const Tensor x = Tensor::empty(shape, dtype, Device::cuda);
    dispatch_floating(dtype, [&]<class T>() {
      enqueue(grid_over(x.numel()), vary_kernel<T>, x.view().as<T>(), x.numel());
    });
    return x;
  };
  const bool correlates = c.product == ConvolutionProduct::backward_filter;
  const Tensor image = make(shapes.image, c.dtype), grid = make(shapes.grid, c.dtype),
               all_w =
                   make({g.O, g.filter_channels, g.KH, g.KW}, correlates ? wide(c.dtype) : c.dtype),
               scratch = conv_workspace(c, Device::cuda);
  View w = all_w.view();
  w.shape = shapes.w;
  const auto compute = [&] {
    if (c.product == ConvolutionProduct::forward)
      conv_gather({grid.view(), 0}, image.view(), {w, {}}, {}, Activation::none, g, scratch.view());
    else if (correlates) conv_correlate({w, 0}, grid.view(), image.view(), g, scratch.view());
    else conv_scatter({image.view(), 0}, grid.view(), {w, {}}, {}, g, scratch.view());
  };
  compute();
  constexpr int repetitions = 5;
  std::vector<double> seconds;
  Stopwatch stopwatch;
  for (int i = 0; i < repetitions; ++i) {
    stopwatch.start();
    compute();
    stopwatch.stop();
    seconds.push_back(stopwatch.seconds());
  }
  return median(seconds);
}

}  // namespace accrue::cuda
