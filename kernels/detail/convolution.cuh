#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "kernels/detail/conv_cudnn.h"
#include "kernels/detail/descriptor.h"

// This header chooses which of cuDNN's algorithms computes a convolution.
namespace accrue::cuda {

// Everything that the choice depends on: the same convolution is always computed by the same
// algorithm, and so to the same bits.
struct CudnnConvolution {
  ConvGeometry geometry;  // symmetric
  int64_t N;
  DType dtype;
  size_t scratch_bytes;
  bool tf32 = allows_tf32();

  auto operator<=>(const CudnnConvolution&) const = default;
};

struct ConvolutionDescriptors {
  Descriptor<cudnnDestroyTensorDescriptor> image, grid;
  Descriptor<cudnnDestroyFilterDescriptor> w;
  Descriptor<cudnnDestroyConvolutionDescriptor> convolution;
};

inline cudnnDataType_t cudnn_data_type(DType dtype) {
  switch (dtype) {
    case DType::f64: return CUDNN_DATA_DOUBLE;
    case DType::f16: return CUDNN_DATA_HALF;
    case DType::bf16: return CUDNN_DATA_BFLOAT16;
    default: return CUDNN_DATA_FLOAT;
  }
}

// True for NOT_SUPPORTED and for each of its reasons.
inline bool is_unsupported(cudnnStatus_t status) {
  return status / 1000 == CUDNN_STATUS_NOT_SUPPORTED / 1000;
}

// False if cuDNN does not support the request. Throws Error for any other failure.
inline bool is_supported(cudnnStatus_t status, std::string_view what) {
  if (!is_unsupported(status)) check_call(status, what);
  return !is_unsupported(status);
}

// 16-bit products are summed in float, on tensor cores if these can do it. Products of float are
// computed in float unless TF32 is allowed.
inline std::vector<cudnnMathType_t> math_types(const CudnnConvolution& c) {
  if (is_16_bit_dtype(c.dtype)) return {CUDNN_TENSOR_OP_MATH, CUDNN_DEFAULT_MATH};
  if (c.dtype == DType::f64) return {CUDNN_DEFAULT_MATH};
  if (c.tf32) return {CUDNN_DEFAULT_MATH, CUDNN_FMA_MATH};
  return {CUDNN_FMA_MATH};
}

inline void set_math_type(const ConvolutionDescriptors& d, cudnnMathType_t type) {
  check_call(cudnnSetConvolutionMathType(d.convolution.get(), type), "say how to multiply");
}

// Returns nullopt if there are too many elements.
inline std::optional<ConvolutionDescriptors> describe(const CudnnConvolution& c) {
  const ConvGeometry& g = c.geometry;
  const auto as_int = [](int64_t size) { return static_cast<int>(size); };
  if (c.N * std::max(g.C * g.H * g.W, g.O * g.GH * g.GW) >= too_many_elements) return std::nullopt;
  ConvolutionDescriptors d{
      make_descriptor<cudnnDestroyTensorDescriptor>(cudnnCreateTensorDescriptor),
      make_descriptor<cudnnDestroyTensorDescriptor>(cudnnCreateTensorDescriptor),
      make_descriptor<cudnnDestroyFilterDescriptor>(cudnnCreateFilterDescriptor),
      make_descriptor<cudnnDestroyConvolutionDescriptor>(cudnnCreateConvolutionDescriptor)};
  const cudnnDataType_t type = cudnn_data_type(c.dtype);
  const cudnnTensorFormat_t format = g.has_channels_last() ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW;
  const auto set_images = [&](const auto& images, int64_t C, int64_t H, int64_t W) {
    return is_supported(cudnnSetTensor4dDescriptor(images.get(), format, type, as_int(c.N),
                                                   as_int(C), as_int(H), as_int(W)),
                        "describe images");
  };
  if (!set_images(d.image, g.C, g.H, g.W) || !set_images(d.grid, g.O, g.GH, g.GW))
    return std::nullopt;
  check_call(cudnnSetFilter4dDescriptor(d.w.get(), type, format, as_int(g.O),
                                        as_int(g.group_channels()), as_int(g.KH), as_int(g.KW)),
             "describe weights");
  check_call(cudnnSetConvolution2dDescriptor(
                 d.convolution.get(), as_int(g.padding.h), as_int(g.padding.w), as_int(g.stride.h),
                 as_int(g.stride.w), as_int(g.dilation.h), as_int(g.dilation.w),
                 CUDNN_CROSS_CORRELATION, cudnn_data_type(wide(c.dtype))),
             "describe a convolution");
  check_call(cudnnSetConvolutionGroupCount(d.convolution.get(), as_int(g.groups)),
             "say how many groups a convolution has");
  return d;
}

// A convolution as cuDNN computes it: a target from two operands. `list` gives the algorithms,
// beginning with the one that cuDNN expects to be fastest; `ask_bytes` gives the scratch that an
// algorithm needs.
template <class Performance, auto list, auto ask_bytes, auto compute, auto left, auto right,
          auto target, auto... plain_algorithms>
class CudnnProduct {
 public:
  // Returns false, with nothing enqueued, if no algorithm could compute it. An algorithm may report
  // only when it is called that it is not supported; it is not tried again.
  static bool run(const CudnnConvolution& c, void* out, float beta_value, const void* left_in,
                  const void* right_in, void* scratch) {
    Prepared& prepared = prepare(c);
    for (; !prepared.choices.empty(); prepared.choices.erase(prepared.choices.begin())) {
      const ConvolutionDescriptors& d = *prepared.d;
      const Choice& choice = prepared.choices.front();
      set_math_type(d, choice.math);
      const bool done = dispatch_wide(wide(c.dtype), [&]<class T>() {
        const T alpha = 1, beta = beta_value;
        return is_supported(
            compute(context().cudnn(), &alpha, (d.*left).get(), left_in, (d.*right).get(), right_in,
                    d.convolution.get(), choice.algorithm, scratch, c.scratch_bytes, &beta,
                    (d.*target).get(), out),
            "convolve");
      });
      if (done) return true;
    }
    return false;
  }

  using Algorithm = decltype(Performance::algo);

  // An algorithm and its math type. Under another math type than the listed one, an algorithm may
  // fail or need more scratch.
  struct Choice {
    Algorithm algorithm;
    cudnnMathType_t math;
    size_t bytes = 0;
  };

  // The first choice of run(), as far as it is known before the call; nullptr if there is none.
  static const Choice* choice(const CudnnConvolution& c) {
    const Prepared& prepared = prepare(c);
    return prepared.choices.empty() ? nullptr : &prepared.choices.front();
  }

 private:
  struct Prepared {
    std::optional<ConvolutionDescriptors> d;
    std::vector<Choice> choices;  // the best first
  };

  static bool fits(const CudnnConvolution& c, const ConvolutionDescriptors& d, Choice& choice) {
    set_math_type(d, choice.math);
    return is_supported(
               ask_bytes(context().cudnn(), (d.*left).get(), (d.*right).get(), d.convolution.get(),
                         (d.*target).get(), choice.algorithm, &choice.bytes),
               "tell an algorithm's workspace") &&
           choice.bytes <= c.scratch_bytes;
  }

  // Deterministic algorithms that multiply and add. FFT and Winograd are deterministic, too, but
  // they do not have the rounding errors of a sum. The algorithms that the heuristics list come
  // first. For double or dilated geometry, for example, the heuristics may list none although some
  // work.
  static std::vector<Choice> choices_for(const CudnnConvolution& c,
                                         const ConvolutionDescriptors& d) {
    const std::vector<cudnnMathType_t> types = math_types(c);
    const bool strict = types.front() == CUDNN_FMA_MATH;  // whatever the list says
    std::array<Performance, 16> found{};
    int count = 0;
    set_math_type(d, types.front());
    if (!is_supported(
            list(context().cudnn(), (d.*left).get(), (d.*right).get(), d.convolution.get(),
                 (d.*target).get(), static_cast<int>(found.size()), &count, found.data()),
            "list algorithms"))
      count = 0;
    std::vector<Choice> choices;
    for (const Performance& p : std::span(found).first(static_cast<size_t>(count)))
      if (p.status == CUDNN_STATUS_SUCCESS && p.determinism == CUDNN_DETERMINISTIC &&
          ((p.algo == plain_algorithms) || ...))
        choices.push_back({p.algo, strict ? CUDNN_FMA_MATH : p.mathType});
    for (const cudnnMathType_t type : types) (choices.push_back({plain_algorithms, type}), ...);
    std::erase_if(choices, [&](Choice& choice) { return !fits(c, d, choice); });
    return choices;
  }

  // Preparing costs more than a small convolution, so the result lasts as long as the process. It
  // is never destroyed, for the same reason as Context.
  static Prepared& prepare(const CudnnConvolution& c) {
    static auto& all = *new std::map<CudnnConvolution, Prepared>;
    const auto [at, is_new] = all.try_emplace(c);
    Prepared& prepared = at->second;
    if (is_new) prepared.d = describe(c);
    if (is_new && prepared.d) prepared.choices = choices_for(c, *prepared.d);
    return prepared;
  }
};

using Gather =
    CudnnProduct<cudnnConvolutionFwdAlgoPerf_t, cudnnGetConvolutionForwardAlgorithm_v7,
                 cudnnGetConvolutionForwardWorkspaceSize, cudnnConvolutionForward,
                 &ConvolutionDescriptors::image, &ConvolutionDescriptors::w,
                 &ConvolutionDescriptors::grid, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM,
                 CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM>;
using Scatter =
    CudnnProduct<cudnnConvolutionBwdDataAlgoPerf_t, cudnnGetConvolutionBackwardDataAlgorithm_v7,
                 cudnnGetConvolutionBackwardDataWorkspaceSize, cudnnConvolutionBackwardData,
                 &ConvolutionDescriptors::w, &ConvolutionDescriptors::grid,
                 &ConvolutionDescriptors::image, CUDNN_CONVOLUTION_BWD_DATA_ALGO_1>;
using Correlate =
    CudnnProduct<cudnnConvolutionBwdFilterAlgoPerf_t, cudnnGetConvolutionBackwardFilterAlgorithm_v7,
                 cudnnGetConvolutionBackwardFilterWorkspaceSize, cudnnConvolutionBackwardFilter,
                 &ConvolutionDescriptors::image, &ConvolutionDescriptors::grid,
                 &ConvolutionDescriptors::w, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1>;

}  // namespace accrue::cuda
