#include "algorithms.h"

#include <algorithm>

namespace simt {
namespace {

int output_size(int input, int filter, int pad, int stride, int dilation) {
  return (input + 2 * pad - (dilation * (filter - 1) + 1)) / stride + 1;
}

// One algorithm uses a transform, and one adds up in no fixed order. The other three multiply and
// add: on tensor cores, with workspace for a sample's columns, and with little workspace.
template <class Algo>
struct Kinds {
  Algo transformed, unordered, tensor, roomy, modest;
  size_t modest_bytes;
  bool splits_sums = false;  // on tensor cores
};

constexpr Kinds<cudnnConvolutionFwdAlgo_t> forward_kinds{
    CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED,
    CUDNN_CONVOLUTION_FWD_ALGO_FFT,
    CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM,
    CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM,
    CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM,
    0};
constexpr Kinds<cudnnConvolutionBwdDataAlgo_t> data_kinds{
    CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT_TILING, CUDNN_CONVOLUTION_BWD_DATA_ALGO_0,
    CUDNN_CONVOLUTION_BWD_DATA_ALGO_1,          CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD_NONFUSED,
    CUDNN_CONVOLUTION_BWD_DATA_ALGO_1,          1024};
constexpr Kinds<cudnnConvolutionBwdFilterAlgo_t> filter_kinds{
    CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT,
    CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0,
    CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1,
    CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD_NONFUSED,
    CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1,
    1024,
    true};

constexpr const auto& kinds(cudnnConvolutionFwdAlgo_t) { return forward_kinds; }
constexpr const auto& kinds(cudnnConvolutionBwdDataAlgo_t) { return data_kinds; }
constexpr const auto& kinds(cudnnConvolutionBwdFilterAlgo_t) { return filter_kinds; }

size_t in_eights(int channels) { return size_t(channels + 7) / 8 * 8; }

// Tensor cores want NHWC and each group's channels in eights: images, grid and weights are
// transposed in the workspace, and so is the result. In NHWC only those are copied whose channels
// do not come in eights.
size_t transposed_bytes(const Problem& p) {
  const size_t C = in_eights(p.w.C), K = in_eights(p.w.N / p.conv.groups), G = p.conv.groups;
  size_t x = C * p.x.N * p.x.H * p.x.W, y = K * p.y.N * p.y.H * p.y.W;
  if (p.has_channels_last()) {
    if (C == size_t(p.x.C)) x = 0;
    if (K == size_t(p.y.C)) y = 0;
  }
  return G * (x + y + 2 * K * C * p.w.H * p.w.W) * (p.x.type == CUDNN_DATA_FLOAT ? 4 : 2);
}

// Bytes for the parts of a weight gradient's sum, in float. There are enough parts to give each of
// 132 multiprocessors a tile of 128 x 128 sums, if each part has 32 products.
size_t split_bytes(const Problem& p) {
  const size_t rows = in_eights(p.w.N / p.conv.groups) * p.conv.groups;
  const size_t columns = in_eights(p.w.C) * p.w.H * p.w.W;
  const size_t tiles = ((rows + 127) / 128) * ((columns + 127) / 128);
  const size_t products = size_t(p.y.N) * p.y.H * p.y.W;
  return std::max<size_t>(1, std::min(132 / tiles, products / 32)) * rows * columns * sizeof(float);
}

}  // namespace

Tensor output_of(const Tensor& x, const Tensor& w, const Conv& conv) {
  return {x.format,
          x.type,
          x.N,
          w.N,
          output_size(x.H, w.H, conv.pad_h, conv.stride_h, conv.dilation_h),
          output_size(x.W, w.W, conv.pad_w, conv.stride_w, conv.dilation_w)};
}

cudnnStatus_t judge(const Problem& p) {
  const Tensor y = output_of(p.x, p.w, p.conv);
  if (p.x.size() == 0 || p.w.size() == 0 || p.x.C != p.w.C * p.conv.groups ||
      p.w.N % p.conv.groups != 0 || y.H < 1 || y.W < 1) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  if (y.N != p.y.N || y.C != p.y.C || y.H != p.y.H || y.W != p.y.W) return CUDNN_STATUS_BAD_PARAM;
  if (p.x.type != p.w.type || p.x.type != p.y.type) return CUDNN_STATUS_BAD_PARAM;
  const cudnnDataType_t compute =
      p.x.type == CUDNN_DATA_DOUBLE ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
  const bool has_one_format = p.x.format == p.w.format && p.x.format == p.y.format;
  const bool is_for_format =
      !p.has_channels_last() || (p.x.type != CUDNN_DATA_DOUBLE && p.conv.groups == 1);
  const bool supported = p.conv.compute == compute && has_one_format && is_for_format &&
                         p.conv.mode == CUDNN_CROSS_CORRELATION;
  return supported ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_SUPPORTED;
}

template <class Algo>
std::vector<Pair<Algo>> pairs_of(const Problem& p) {
  const auto& k = kinds(Algo{});
  const bool is_float = p.x.type == CUDNN_DATA_FLOAT;
  const cudnnMathType_t math = is_float ? CUDNN_FMA_MATH : CUDNN_DEFAULT_MATH;
  const Arithmetic tensor = is_float ? Arithmetic::tf32 : Arithmetic::plain;
  const size_t columns = k.modest_bytes + p.column_bytes();
  std::vector<Pair<Algo>> pairs{
      {k.transformed, math, columns, CUDNN_DETERMINISTIC, Arithmetic::transformed},
      {k.unordered, math, 0, CUDNN_NON_DETERMINISTIC}};
  const bool is_wide = p.w.C >= 4 && p.w.N / p.conv.groups >= 4;
  if (p.x.type != CUDNN_DATA_DOUBLE && (is_wide || p.has_channels_last())) {
    pairs.push_back({k.tensor, CUDNN_TENSOR_OP_MATH,
                     transposed_bytes(p) + (k.splits_sums ? split_bytes(p) : 0),
                     CUDNN_DETERMINISTIC, tensor});
    if (!is_float) return pairs;  // with tensor cores cuDNN has no other kernels for 16 bits
  }
  if (p.has_channels_last()) {
    pairs.push_back({k.tensor, math, size_t(p.taps()) * sizeof(int64_t)});  // the taps' offsets
    return pairs;
  }
  pairs.push_back({k.roomy, math, columns});
  pairs.push_back({k.modest, math, k.modest_bytes});
  return pairs;
}

template std::vector<Pair<cudnnConvolutionFwdAlgo_t>> pairs_of(const Problem& p);
template std::vector<Pair<cudnnConvolutionBwdDataAlgo_t>> pairs_of(const Problem& p);
template std::vector<Pair<cudnnConvolutionBwdFilterAlgo_t>> pairs_of(const Problem& p);

bool has_algorithms(const Problem& p) {
  const auto reach = [](int filter, int dilation) { return (filter - 1) * dilation + 1; };
  return p.conv.pad_h < reach(p.w.H, p.conv.dilation_h) &&
         p.conv.pad_w < reach(p.w.W, p.conv.dilation_w);
}

}  // namespace simt
