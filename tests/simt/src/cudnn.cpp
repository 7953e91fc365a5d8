#include "cudnn.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <optional>

#include "convolution.h"
#include "library.h"

struct cudnnContext {
  cudaStream_t stream = nullptr;
};

namespace simt {
namespace {

int output_size(int input, int filter, int pad, int stride, int dilation) {
  return (input + 2 * pad - (dilation * (filter - 1) + 1)) / stride + 1;
}

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
  if (p.x.size() == 0 || p.w.size() == 0 || p.x.C != p.w.C || y.H < 1 || y.W < 1) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  if (y.N != p.y.N || y.C != p.y.C || y.H != p.y.H || y.W != p.y.W) return CUDNN_STATUS_BAD_PARAM;
  if (p.x.type != p.w.type || p.x.type != p.y.type) return CUDNN_STATUS_BAD_PARAM;
  const cudnnDataType_t compute =
      p.x.type == CUDNN_DATA_DOUBLE ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
  const bool supported = p.conv.compute == compute && p.x.format == CUDNN_TENSOR_NCHW &&
                         p.w.format == CUDNN_TENSOR_NCHW && p.y.format == CUDNN_TENSOR_NCHW &&
                         p.conv.mode == CUDNN_CROSS_CORRELATION;
  return supported ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_SUPPORTED;
}

// Algorithms. Each direction offers a fast one whose sums have no fixed order, a deterministic one
// with workspace for the windows of a sample, and a deterministic one that needs little.

template <class Algo>
struct Choices {
  Algo fastest, roomy, frugal;
  size_t frugal_bytes;
};

constexpr Choices<cudnnConvolutionFwdAlgo_t> forward_choices{
    CUDNN_CONVOLUTION_FWD_ALGO_FFT, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM,
    CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, 0};
constexpr Choices<cudnnConvolutionBwdDataAlgo_t> data_choices{
    CUDNN_CONVOLUTION_BWD_DATA_ALGO_0, CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD_NONFUSED,
    CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, 1024};
constexpr Choices<cudnnConvolutionBwdFilterAlgo_t> filter_choices{
    CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD_NONFUSED,
    CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1, 1024};

constexpr const auto& choices(cudnnConvolutionFwdAlgo_t) { return forward_choices; }
constexpr const auto& choices(cudnnConvolutionBwdDataAlgo_t) { return data_choices; }
constexpr const auto& choices(cudnnConvolutionBwdFilterAlgo_t) { return filter_choices; }

template <class Algo>
std::optional<size_t> workspace_bytes(const Problem& p, Algo algo) {
  const auto& c = choices(algo);
  if (algo == c.fastest) return 0;
  if (algo == c.roomy) return c.frugal_bytes + p.column_bytes();
  if (algo == c.frugal) return c.frugal_bytes;
  return std::nullopt;
}

template <class Algo>
cudnnStatus_t list_algorithms(const Problem& p, int requested, int* returned,
                              AlgoPerf<Algo>* results) {
  if (requested < 1 || returned == nullptr || results == nullptr) return CUDNN_STATUS_BAD_PARAM;
  *returned = 0;
  if (const cudnnStatus_t status = judge(p)) return status;
  const auto& c = choices(Algo{});
  for (const Algo algo : {c.fastest, c.roomy, c.frugal}) {
    if (*returned == requested) break;
    results[(*returned)++] = {
        .algo = algo,
        .status = CUDNN_STATUS_SUCCESS,
        .time = -1,
        .memory = *workspace_bytes(p, algo),
        .determinism = algo == c.fastest ? CUDNN_NON_DETERMINISTIC : CUDNN_DETERMINISTIC,
        .mathType = p.conv.math,
        .reserved = {}};
  }
  return CUDNN_STATUS_SUCCESS;
}

template <class Algo>
cudnnStatus_t tell_workspace(const Problem& p, Algo algo, size_t* bytes) {
  if (bytes == nullptr) return CUDNN_STATUS_BAD_PARAM;
  if (const cudnnStatus_t status = judge(p)) return status;
  const std::optional<size_t> need = workspace_bytes(p, algo);
  if (!need) return CUDNN_STATUS_NOT_SUPPORTED;
  *bytes = *need;
  return CUDNN_STATUS_SUCCESS;
}

// alpha and beta are read now; all else happens when the stream comes to it.
template <class T>
cudnnStatus_t submit_run(cudaStream_t stream, Direction direction, const Problem& p,
                         const Buffers<T>& buffers, const void* alpha, const void* beta,
                         Workspace workspace) {
  const auto a = *static_cast<const Sum<T>*>(alpha), b = *static_cast<const Sum<T>*>(beta);
  const cudaError_t error = submit_library_work(stream, [=] {
    workspace.scribble();
    convolve(direction, p, buffers, a, b);
    workspace.scribble();
  });
  return error == cudaSuccess ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_EXECUTION_FAILED;
}

struct Pointers {
  const void *x, *w, *y;

  template <class T>
  Buffers<T> as() const {
    const auto cast = [](const void* pointer) {
      return static_cast<T*>(const_cast<void*>(pointer));
    };
    return {cast(x), cast(w), cast(y)};
  }
};

template <class Algo>
cudnnStatus_t start(cudnnHandle_t handle, Direction direction, const Problem& p,
                    const Pointers& pointers, const void* alpha, const void* beta, Algo algo,
                    Workspace workspace) {
  if (handle == nullptr || alpha == nullptr || beta == nullptr || pointers.x == nullptr ||
      pointers.w == nullptr || pointers.y == nullptr) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  size_t need = 0;
  if (const cudnnStatus_t status = tell_workspace(p, algo, &need)) return status;
  if (workspace.bytes < need || (need > 0 && workspace.data == nullptr))
    return CUDNN_STATUS_BAD_PARAM;
  const auto submit = [&]<class T>(T) {
    return submit_run(handle->stream, direction, p, pointers.as<T>(), alpha, beta, workspace);
  };
  switch (p.x.type) {
    case CUDNN_DATA_DOUBLE: return submit(double{});
    case CUDNN_DATA_HALF: return submit(__half{});
    case CUDNN_DATA_BFLOAT16: return submit(__nv_bfloat16{});
    case CUDNN_DATA_FLOAT: break;
  }
  return submit(float{});
}

// Runs `body` on the problem that the descriptors describe, if all are there.
template <class Body>
cudnnStatus_t with_problem(cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t w,
                           cudnnTensorDescriptor_t y, cudnnConvolutionDescriptor_t conv,
                           Body body) {
  if (x == nullptr || w == nullptr || y == nullptr || conv == nullptr)
    return CUDNN_STATUS_BAD_PARAM;
  return body(Problem{*x, *w, *y, *conv});
}

template <class T>
cudnnStatus_t create(T** handle) {
  if (handle == nullptr) return CUDNN_STATUS_BAD_PARAM;
  *handle = new T{};
  return CUDNN_STATUS_SUCCESS;
}

template <class T>
cudnnStatus_t destroy(T* handle) {
  delete handle;
  return CUDNN_STATUS_SUCCESS;
}

template <class T>
cudnnStatus_t assign(T* field, const T& value, bool valid) {
  if (field == nullptr || !valid) return CUDNN_STATUS_BAD_PARAM;
  *field = value;
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace
}  // namespace simt

using namespace simt;

const char* cudnnGetErrorString(cudnnStatus_t status) {
  switch (status) {
    case CUDNN_STATUS_SUCCESS: return "CUDNN_STATUS_SUCCESS";
    case CUDNN_STATUS_NOT_INITIALIZED: return "CUDNN_STATUS_NOT_INITIALIZED";
    case CUDNN_STATUS_BAD_PARAM: return "CUDNN_STATUS_BAD_PARAM";
    case CUDNN_STATUS_NOT_SUPPORTED: return "CUDNN_STATUS_NOT_SUPPORTED";
    case CUDNN_STATUS_INTERNAL_ERROR: return "CUDNN_STATUS_INTERNAL_ERROR";
    case CUDNN_STATUS_EXECUTION_FAILED: return "CUDNN_STATUS_EXECUTION_FAILED";
  }
  return "unknown cuDNN status";
}

size_t cudnnGetVersion() { return CUDNN_VERSION; }

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) { return create(handle); }
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) { return destroy(handle); }

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  if (handle == nullptr) return CUDNN_STATUS_BAD_PARAM;
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetStream(cudnnHandle_t handle, cudaStream_t* stream) {
  if (handle == nullptr || stream == nullptr) return CUDNN_STATUS_BAD_PARAM;
  *stream = handle->stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t* tensor) {
  return create(tensor);
}
cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t tensor) {
  return destroy(tensor);
}
cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t tensor, cudnnTensorFormat_t format,
                                         cudnnDataType_t type, int n, int c, int h, int w) {
  return assign(tensor, {format, type, n, c, h, w}, n > 0 && c > 0 && h > 0 && w > 0);
}

cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t* filter) {
  return create(filter);
}
cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t filter) {
  return destroy(filter);
}
cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t filter, cudnnDataType_t type,
                                         cudnnTensorFormat_t format, int k, int c, int h, int w) {
  return assign(filter, {{format, type, k, c, h, w}}, k > 0 && c > 0 && h > 0 && w > 0);
}

cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t* conv) {
  return create(conv);
}
cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t conv) {
  return destroy(conv);
}
cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t conv, int pad_h,
                                              int pad_w, int stride_h, int stride_w, int dilation_h,
                                              int dilation_w, cudnnConvolutionMode_t mode,
                                              cudnnDataType_t compute) {
  const bool valid =
      pad_h >= 0 && pad_w >= 0 && stride_h > 0 && stride_w > 0 && dilation_h > 0 && dilation_w > 0;
  return assign(conv, {pad_h, pad_w, stride_h, stride_w, dilation_h, dilation_w, mode, compute},
                valid);
}

cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t conv, cudnnMathType_t math) {
  if (conv == nullptr) return CUDNN_STATUS_BAD_PARAM;
  conv->math = math;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolution2dForwardOutputDim(cudnnConvolutionDescriptor_t conv,
                                                    cudnnTensorDescriptor_t x,
                                                    cudnnFilterDescriptor_t w, int* N, int* C,
                                                    int* H, int* W) {
  if (conv == nullptr || x == nullptr || w == nullptr || x->C != w->C)
    return CUDNN_STATUS_BAD_PARAM;
  const Tensor y = output_of(*x, *w, *conv);
  if (y.H < 1 || y.W < 1) return CUDNN_STATUS_BAD_PARAM;
  *N = y.N;
  *C = y.C;
  *H = y.H;
  *W = y.W;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(cudnnHandle_t, cudnnTensorDescriptor_t x,
                                                     cudnnFilterDescriptor_t w,
                                                     cudnnConvolutionDescriptor_t conv,
                                                     cudnnTensorDescriptor_t y, int requested,
                                                     int* returned,
                                                     cudnnConvolutionFwdAlgoPerf_t* results) {
  return with_problem(x, w, y, conv, [&](const Problem& p) {
    return list_algorithms(p, requested, returned, results);
  });
}

cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(
    cudnnHandle_t, cudnnFilterDescriptor_t w, cudnnTensorDescriptor_t dy,
    cudnnConvolutionDescriptor_t conv, cudnnTensorDescriptor_t dx, int requested, int* returned,
    cudnnConvolutionBwdDataAlgoPerf_t* results) {
  return with_problem(dx, w, dy, conv, [&](const Problem& p) {
    return list_algorithms(p, requested, returned, results);
  });
}

cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(
    cudnnHandle_t, cudnnTensorDescriptor_t x, cudnnTensorDescriptor_t dy,
    cudnnConvolutionDescriptor_t conv, cudnnFilterDescriptor_t dw, int requested, int* returned,
    cudnnConvolutionBwdFilterAlgoPerf_t* results) {
  return with_problem(x, dw, dy, conv, [&](const Problem& p) {
    return list_algorithms(p, requested, returned, results);
  });
}

cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(cudnnHandle_t, cudnnTensorDescriptor_t x,
                                                      cudnnFilterDescriptor_t w,
                                                      cudnnConvolutionDescriptor_t conv,
                                                      cudnnTensorDescriptor_t y,
                                                      cudnnConvolutionFwdAlgo_t algo,
                                                      size_t* bytes) {
  return with_problem(x, w, y, conv,
                      [&](const Problem& p) { return tell_workspace(p, algo, bytes); });
}

cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(cudnnHandle_t, cudnnFilterDescriptor_t w,
                                                           cudnnTensorDescriptor_t dy,
                                                           cudnnConvolutionDescriptor_t conv,
                                                           cudnnTensorDescriptor_t dx,
                                                           cudnnConvolutionBwdDataAlgo_t algo,
                                                           size_t* bytes) {
  return with_problem(dx, w, dy, conv,
                      [&](const Problem& p) { return tell_workspace(p, algo, bytes); });
}

cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(
    cudnnHandle_t, cudnnTensorDescriptor_t x, cudnnTensorDescriptor_t dy,
    cudnnConvolutionDescriptor_t conv, cudnnFilterDescriptor_t dw,
    cudnnConvolutionBwdFilterAlgo_t algo, size_t* bytes) {
  return with_problem(x, dw, dy, conv,
                      [&](const Problem& p) { return tell_workspace(p, algo, bytes); });
}

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void* alpha,
                                      cudnnTensorDescriptor_t x_desc, const void* x,
                                      cudnnFilterDescriptor_t w_desc, const void* w,
                                      cudnnConvolutionDescriptor_t conv,
                                      cudnnConvolutionFwdAlgo_t algo, void* workspace,
                                      size_t workspace_bytes, const void* beta,
                                      cudnnTensorDescriptor_t y_desc, void* y) {
  return with_problem(x_desc, w_desc, y_desc, conv, [&](const Problem& p) {
    return start(handle, Direction::forward, p, {x, w, y}, alpha, beta, algo,
                 {workspace, workspace_bytes});
  });
}

cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void* alpha,
                                           cudnnFilterDescriptor_t w_desc, const void* w,
                                           cudnnTensorDescriptor_t dy_desc, const void* dy,
                                           cudnnConvolutionDescriptor_t conv,
                                           cudnnConvolutionBwdDataAlgo_t algo, void* workspace,
                                           size_t workspace_bytes, const void* beta,
                                           cudnnTensorDescriptor_t dx_desc, void* dx) {
  return with_problem(dx_desc, w_desc, dy_desc, conv, [&](const Problem& p) {
    return start(handle, Direction::data, p, {dx, w, dy}, alpha, beta, algo,
                 {workspace, workspace_bytes});
  });
}

cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t handle, const void* alpha,
                                             cudnnTensorDescriptor_t x_desc, const void* x,
                                             cudnnTensorDescriptor_t dy_desc, const void* dy,
                                             cudnnConvolutionDescriptor_t conv,
                                             cudnnConvolutionBwdFilterAlgo_t algo, void* workspace,
                                             size_t workspace_bytes, const void* beta,
                                             cudnnFilterDescriptor_t dw_desc, void* dw) {
  return with_problem(x_desc, dw_desc, dy_desc, conv, [&](const Problem& p) {
    return start(handle, Direction::filter, p, {x, dw, dy}, alpha, beta, algo,
                 {workspace, workspace_bytes});
  });
}
