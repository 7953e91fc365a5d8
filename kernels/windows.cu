#include <array>
#include <bit>
#include <functional>
#include <limits>
#include <map>

#include "core/memory.h"
#include "kernels/channel_bias.cuh"
#include "kernels/descriptor.h"
#include "kernels/reduce.cuh"
#include "kernels/windows_cuda.h"

namespace accrue::cuda {
namespace {

// All that cuDNN's choice of an algorithm depends on: the same convolution is always computed by
// the same algorithm, hence to the same bits.
struct Convolution {
  Windows windows;  // symmetric
  int64_t N;
  DType dtype;
  size_t scratch_bytes;
  bool tf32 = context().allows_tf32();

  auto operator<=>(const Convolution&) const = default;
};

struct Descriptors {
  Descriptor<cudnnDestroyTensorDescriptor> image, grid;
  Descriptor<cudnnDestroyFilterDescriptor> w;
  Descriptor<cudnnDestroyConvolutionDescriptor> convolution;
};

int as_int(int64_t size) {
  check(size <= std::numeric_limits<int>::max(), "cuDNN's sizes are less than 2^31, got {}", size);
  return static_cast<int>(size);
}

cudnnDataType_t data_type(DType dtype) {
  switch (dtype) {
    case DType::f64: return CUDNN_DATA_DOUBLE;
    case DType::f16: return CUDNN_DATA_HALF;
    case DType::bf16: return CUDNN_DATA_BFLOAT16;
    default: return CUDNN_DATA_FLOAT;
  }
}

// 16-bit products are summed in float, on tensor cores; float ones are float's unless TF32 will do.
cudnnMathType_t math_type(const Convolution& c) {
  if (is_16_bit_dtype(c.dtype)) return CUDNN_TENSOR_OP_MATH;
  return c.tf32 ? CUDNN_DEFAULT_MATH : CUDNN_FMA_MATH;
}

Descriptors describe(const Convolution& c) {
  const Windows& s = c.windows;
  const cudnnDataType_t type = data_type(c.dtype);
  const auto images = [&](int64_t C, int64_t H, int64_t W) {
    auto made = make_descriptor<cudnnDestroyTensorDescriptor>(cudnnCreateTensorDescriptor);
    check_call(cudnnSetTensor4dDescriptor(made.get(), CUDNN_TENSOR_NCHW, type, as_int(c.N),
                                          as_int(C), as_int(H), as_int(W)),
               "describe images");
    return made;
  };
  Descriptors d{
      images(s.C, s.H, s.W), images(s.O, s.GH, s.GW),
      make_descriptor<cudnnDestroyFilterDescriptor>(cudnnCreateFilterDescriptor),
      make_descriptor<cudnnDestroyConvolutionDescriptor>(cudnnCreateConvolutionDescriptor)};
  check_call(cudnnSetFilter4dDescriptor(d.w.get(), type, CUDNN_TENSOR_NCHW, as_int(s.O),
                                        as_int(s.C), as_int(s.KH), as_int(s.KW)),
             "describe weights");
  const int padding = as_int(s.padding), stride = as_int(s.stride), dilation = as_int(s.dilation);
  check_call(cudnnSetConvolution2dDescriptor(d.convolution.get(), padding, padding, stride, stride,
                                             dilation, dilation, CUDNN_CROSS_CORRELATION,
                                             data_type(wide(c.dtype))),
             "describe a convolution");
  check_call(cudnnSetConvolutionMathType(d.convolution.get(), math_type(c)), "say how to multiply");
  return d;
}

// What cuDNN computes: a target from two operands. `ask` lists the algorithms, the one it expects
// to be fastest first.
template <class Performance, auto ask, auto compute, auto left, auto right, auto target>
struct Product {
  struct Plan {
    Descriptors d;
    decltype(Performance::algo) algorithm;
  };

  static auto choose_algorithm(const Convolution& c, const Descriptors& d) {
    std::array<Performance, 16> found{};
    int count = 0;
    check_call(ask(context().cudnn(), (d.*left).get(), (d.*right).get(), d.convolution.get(),
                   (d.*target).get(), static_cast<int>(found.size()), &count, found.data()),
               "list algorithms");
    size_t least = std::numeric_limits<size_t>::max();
    for (int i = 0; i < count; ++i) {
      const Performance& p = found[static_cast<size_t>(i)];
      if (p.status != CUDNN_STATUS_SUCCESS || p.determinism != CUDNN_DETERMINISTIC) continue;
      if (p.memory <= c.scratch_bytes) return p.algo;
      least = std::min(least, p.memory);
    }
    const Windows& s = c.windows;
    fail(
        "cuDNN has no deterministic algorithm with {} of scratch for images [{}, {}, {}, {}] and "
        "weights [{}, {}, {}, {}]{}",
        format_bytes(c.scratch_bytes), c.N, s.C, s.H, s.W, s.O, s.C, s.KH, s.KW,
        least == std::numeric_limits<size_t>::max()
            ? ""
            : fmt::format(": the least that one needs is {}", format_bytes(least)));
  }

  // Plans last as long as the process: making one costs more than a small convolution.
  static const Plan& plan_for(const Convolution& c) {
    static std::map<Convolution, Plan> plans;
    if (const auto at = plans.find(c); at != plans.end()) return at->second;
    Descriptors d = describe(c);
    const auto algorithm = choose_algorithm(c, d);
    return plans.emplace(c, Plan{std::move(d), algorithm}).first->second;
  }

  static void run(const Convolution& c, void* out, float beta_value, const void* left_in,
                  const void* right_in, void* scratch) {
    const Plan& plan = plan_for(c);
    const Descriptors& d = plan.d;
    dispatch_wide(wide(c.dtype), [&]<class T>() {
      const T alpha = 1, beta = beta_value;
      check_call(compute(context().cudnn(), &alpha, (d.*left).get(), left_in, (d.*right).get(),
                         right_in, d.convolution.get(), plan.algorithm, scratch, c.scratch_bytes,
                         &beta, (d.*target).get(), out),
                 "convolve");
    });
  }
};

using Gather =
    Product<cudnnConvolutionFwdAlgoPerf_t, cudnnGetConvolutionForwardAlgorithm_v7,
            cudnnConvolutionForward, &Descriptors::image, &Descriptors::w, &Descriptors::grid>;
using Scatter =
    Product<cudnnConvolutionBwdDataAlgoPerf_t, cudnnGetConvolutionBackwardDataAlgorithm_v7,
            cudnnConvolutionBackwardData, &Descriptors::w, &Descriptors::grid, &Descriptors::image>;
using Correlate =
    Product<cudnnConvolutionBwdFilterAlgoPerf_t, cudnnGetConvolutionBackwardFilterAlgorithm_v7,
            cudnnConvolutionBackwardFilter, &Descriptors::image, &Descriptors::grid,
            &Descriptors::w>;

// The workspace of one call.
struct Scratch {
  Convolution convolution;
  View padded;  // empty if the image needs no padding of its own
  void* scratch;

  Scratch(const Windows& s, int64_t N, DType dtype, View workspace) {
    const int64_t padded_bytes = padded_image_bytes(s, N, dtype);
    convolution = {as_symmetric(s), N, dtype,
                   static_cast<size_t>(workspace.numel() - padded_bytes)};
    const Windows& symmetric = convolution.windows;
    if (padded_bytes > 0)
      padded = {workspace.data, {N, symmetric.C, symmetric.H, symmetric.W}, dtype, Device::cuda};
    scratch = static_cast<std::byte*>(workspace.data) + padded_bytes;
  }
};

struct Plane {
  int64_t H, W;
};

// target[q, h, w] = source[q, h + shift, w + shift], zero where there is no such pixel: a negative
// shift pads, a positive one crops. A warp has a row, so that it finds its place once and reads and
// writes contiguously.
template <bool accumulate, class T>
__global__ void __launch_bounds__(block_threads)
    shift_kernel(T* target, const T* source, int64_t rows, Plane to, Plane from, int64_t shift) {
  const int lane = threadIdx.x % warp_threads;
  for (int64_t row = first_item() / warp_threads; row < rows; row += item_stride() / warp_threads) {
    const int64_t plane = row / to.H, h = row % to.H + shift;
    const bool inside = h >= 0 && h < from.H;
    for (int64_t column = lane; column < to.W; column += warp_threads) {
      const int64_t w = column + shift;
      const bool seen = inside && w >= 0 && w < from.W;
      store(target[row * to.W + column],
            seen ? widen(source[(plane * from.H + h) * from.W + w]) : Wide<T>(0),
            std::bool_constant<accumulate>{});
    }
  }
}

void copy_shifted(GradTarget target, View source, int64_t shift) {
  const Shape &to = target.grad.shape, &from = source.shape;
  const int64_t rows = to.numel(0, 3);
  dispatch_floating(source.dtype, [&]<class T>() {
    with_beta(target.beta, [&](auto accumulate) {
      enqueue(grid_over(rows * warp_threads), shift_kernel<accumulate.value, T>,
              target.grad.as<T>(), source.as<const T>(), rows, Plane{to[2], to[3]},
              Plane{from[2], from[3]}, shift);
    });
  });
}

// The image itself, or its padded copy.
const void* load_image(const Scratch& x, View image, const Windows& s) {
  if (!x.padded.data) return image.data;
  copy_shifted({x.padded, 0}, image, -s.padding);
  return x.padded.data;
}

// Threads that sum a channel: all that a block can have, because channels are few.
constexpr int channel_threads = 1024;

// db[c] = sum_(n, p) dy[n, c, p]. A block has a channel: runs of `lanes` threads read planes of it
// side by side, so that small planes keep all threads busy and large ones are read contiguously.
template <int width, bool accumulate, class T, class W = Wide<T>>
__global__ void __launch_bounds__(channel_threads)
    channel_sum_kernel(W* db, const T* dy, int64_t N, int64_t C, int64_t P, int lanes) {
  const int64_t c = blockIdx.x;
  const int lane = threadIdx.x % lanes;
  RunningSum<W> sum;
  for (int64_t n = threadIdx.x / lanes; n < N; n += channel_threads / lanes) {
    const auto* plane = reinterpret_cast<const Vector<T, width>*>(dy + (n * C + c) * P);
    for (int64_t v = lane; v < P / width; v += lanes) {
      const Vector<T, width> vector = plane[v];
      W part = 0;
      for (const T value : vector.values) part += value;
      sum.add(part);
    }
  }
  const W total = block_sum<channel_threads>(sum.total());
  if (threadIdx.x == 0) store(db[c], total, std::bool_constant<accumulate>{});
}

}  // namespace

void gather_windows(GradTarget grid, View image, View w, View b, Activation activation,
                    const Windows& s, View workspace) {
  check(grid.beta == 0 || activation == Activation::none,
        "an activated convolution cannot be added to what was there");
  const Scratch x(s, image.shape[0], image.dtype, workspace);
  Gather::run(x.convolution, grid.grad.data, grid.beta, load_image(x, image, s), w.data, x.scratch);
  add_channel_bias(grid.grad, b, activation);
}

void scatter_windows(GradTarget image, View grid, View w, View b, const Windows& s,
                     View workspace) {
  const Scratch x(s, grid.shape[0], grid.dtype, workspace);
  const GradTarget target = x.padded.data ? GradTarget{x.padded, 0} : image;
  Scatter::run(x.convolution, target.grad.data, target.beta, w.data, grid.data, x.scratch);
  if (x.padded.data) copy_shifted(image, x.padded, s.padding);
  add_channel_bias(image.grad, b, Activation::none);
}

// cuDNN's weight gradient has the dtype of its images. A 16-bit one goes to the end of the
// workspace and from there, widened, into the float32 sum over micro-batches.
void correlate_windows(GradTarget w, View grid, View image, const Windows& s, View workspace) {
  const int64_t rounded_bytes = rounded_weights_bytes(s, grid.dtype);
  workspace.shape = {workspace.numel() - rounded_bytes};
  const Scratch x(s, grid.shape[0], grid.dtype, workspace);
  if (rounded_bytes == 0) {
    Correlate::run(x.convolution, w.grad.data, w.beta, load_image(x, image, s), grid.data,
                   x.scratch);
    return;
  }
  View rounded = w.grad;
  rounded.data = static_cast<std::byte*>(workspace.data) + workspace.numel();
  rounded.dtype = grid.dtype;
  Correlate::run(x.convolution, rounded.data, 0, load_image(x, image, s), grid.data, x.scratch);
  dispatch_floating(grid.dtype, [&]<class T>() {
    elementwise(w.grad.as<Wide<T>>(), w.beta, w.grad.numel(), std::identity{},
                rounded.as<const T>());
  });
}

void channel_sum(GradTarget db, View dy) {
  const int64_t N = dy.shape[0], C = dy.shape[1], P = dy.shape.numel(2, dy.shape.rank());
  if (C == 0) return;
  dispatch_floating(dy.dtype, [&]<class T>() {
    with_width<T>(P, {dy.data}, [&](auto width) {
      const auto vectors = static_cast<uint64_t>(std::max<int64_t>(P / width, 1));
      const auto lanes = static_cast<int>(std::min<uint64_t>(std::bit_ceil(vectors), 256));
      with_beta(db.beta, [&](auto accumulate) {
        enqueue({dim3(static_cast<unsigned>(C)), channel_threads},
                channel_sum_kernel<width.value, accumulate.value, T>, db.grad.as<Wide<T>>(),
                dy.as<const T>(), N, C, P, lanes);
      });
    });
  });
}

}  // namespace accrue::cuda
