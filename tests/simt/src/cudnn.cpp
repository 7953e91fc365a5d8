#include "cudnn.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "algorithms.h"
#include "convolution.h"
#include "library.h"

struct cudnnContext {
  cudaStream_t stream = nullptr;
};

namespace simt {
namespace {

template <class Algo>
cudnnStatus_t list_algorithms(const Problem& p, int requested, int* returned,
                              AlgoPerf<Algo>* results) {
  if (requested < 1 || returned == nullptr || results == nullptr) return CUDNN_STATUS_BAD_PARAM;
  *returned = 0;
  if (const cudnnStatus_t status = judge(p)) return status;
  // The heuristic knows less than the library can do: it lists nothing, or returns an error.
  if (p.x.type == CUDNN_DATA_DOUBLE || !has_algorithms(p)) return CUDNN_STATUS_SUCCESS;
  if (p.conv.dilation_h > 1 || p.conv.dilation_w > 1) return CUDNN_STATUS_NOT_SUPPORTED_SHAPE;
  for (const Pair<Algo>& pair : pairs_of<Algo>(p)) {
    if (*returned == requested) break;
    results[(*returned)++] = {.algo = pair.algo,
                              .status = CUDNN_STATUS_SUCCESS,
                              .time = -1,
                              .memory = pair.bytes,
                              .determinism = pair.determinism,
                              .mathType = pair.math,
                              .reserved = {}};
  }
  return CUDNN_STATUS_SUCCESS;
}

// Also answers for a pair that does not run, if the algorithm runs under another math type.
template <class Algo>
cudnnStatus_t tell_workspace(const Problem& p, Algo algo, size_t* bytes) {
  if (bytes == nullptr) return CUDNN_STATUS_BAD_PARAM;
  if (const cudnnStatus_t status = judge(p)) return status;
  if (!has_algorithms(p)) return CUDNN_STATUS_NOT_SUPPORTED_PADDING;
  cudnnStatus_t status = CUDNN_STATUS_NOT_SUPPORTED;
  for (const Pair<Algo>& pair : pairs_of<Algo>(p)) {
    if (pair.algo != algo || (status == CUDNN_STATUS_SUCCESS && pair.math != p.conv.math)) continue;
    *bytes = pair.bytes;
    status = CUDNN_STATUS_SUCCESS;
  }
  return status;
}

// Reads alpha and beta now. Everything else happens when the stream comes to the work.
template <class T>
cudnnStatus_t submit_run(cudaStream_t stream, Direction direction, Arithmetic arithmetic,
                         const Problem& p, const Buffers<T>& buffers, const void* alpha,
                         const void* beta, Workspace workspace) {
  const auto a = *static_cast<const Sum<T>*>(alpha), b = *static_cast<const Sum<T>*>(beta);
  const cudaError_t error = submit_library_work(stream, [=] {
    workspace.scribble();
    convolve(direction, arithmetic, p, buffers, a, b);
    workspace.scribble();
  });
  return error == cudaSuccess ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_EXECUTION_FAILED;
}

bool aligned(const void* pointer, uintptr_t bytes) {
  return reinterpret_cast<uintptr_t>(pointer) % bytes == 0;
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
  if (const cudnnStatus_t status = judge(p)) return status;
  const std::vector<Pair<Algo>> pairs = pairs_of<Algo>(p);
  const auto pair = std::find_if(pairs.begin(), pairs.end(), [&](const Pair<Algo>& at) {
    return at.algo == algo && at.math == p.conv.math;
  });
  if (pair == pairs.end() || !has_algorithms(p)) return CUDNN_STATUS_NOT_SUPPORTED;
  if (workspace.bytes < pair->bytes || (pair->bytes > 0 && workspace.data == nullptr))
    return CUDNN_STATUS_BAD_PARAM;
  // cuDNN 9 does not document which pointers it calls misaligned. Its graphs assume operands
  // aligned to 16 bytes, and cudaMalloc aligns workspaces to 256.
  if (!aligned(pointers.x, 16) || !aligned(pointers.w, 16) || !aligned(pointers.y, 16) ||
      (pair->bytes > 0 && !aligned(workspace.data, 256))) {
    return CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER;
  }
  const auto submit = [&]<class T>(T) {
    return submit_run(handle->stream, direction, pair->arithmetic, p, pointers.as<T>(), alpha, beta,
                      {workspace.data, workspace.bytes, pair->bytes});
  };
  switch (p.x.type) {
    case CUDNN_DATA_DOUBLE: return submit(double{});
    case CUDNN_DATA_HALF: return submit(__half{});
    case CUDNN_DATA_BFLOAT16: return submit(__nv_bfloat16{});
    case CUDNN_DATA_FLOAT: break;
  }
  return submit(float{});
}

// Runs `body` on the problem that the descriptors describe, if none is null.
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
  require_loaded("a destructor of cuDNN");
  delete handle;
  return CUDNN_STATUS_SUCCESS;
}

template <class T>
cudnnStatus_t assign(T* field, const T& value, bool valid) {
  if (field == nullptr || !valid) return CUDNN_STATUS_BAD_PARAM;
  *field = value;
  return CUDNN_STATUS_SUCCESS;
}

// "The total size of the tensor descriptor exceeds the maximum limit of 2 Giga-elements" is
// NOT_SUPPORTED (the API reference on cudnnSetTensor4dDescriptor).
size_t largest_tensor = std::numeric_limits<int>::max();

template <class T>
cudnnStatus_t assign_shape(T* field, const T& value) {
  if (value.size() > largest_tensor) return CUDNN_STATUS_NOT_SUPPORTED;
  return assign(field, value, value.N > 0 && value.C > 0 && value.H > 0 && value.W > 0);
}

}  // namespace
}  // namespace simt

using namespace simt;

void simt::set_largest_tensor(size_t elements) { largest_tensor = elements; }

const char* cudnnGetErrorString(cudnnStatus_t status) {
  switch (status) {
    case CUDNN_STATUS_SUCCESS: return "CUDNN_STATUS_SUCCESS";
    case CUDNN_STATUS_NOT_INITIALIZED: return "CUDNN_STATUS_NOT_INITIALIZED";
    case CUDNN_STATUS_BAD_PARAM: return "CUDNN_STATUS_BAD_PARAM";
    case CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER:
      return "CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER";
    case CUDNN_STATUS_NOT_SUPPORTED: return "CUDNN_STATUS_NOT_SUPPORTED";
    case CUDNN_STATUS_NOT_SUPPORTED_SHAPE: return "CUDNN_STATUS_NOT_SUPPORTED_SHAPE";
    case CUDNN_STATUS_NOT_SUPPORTED_PADDING: return "CUDNN_STATUS_NOT_SUPPORTED_PADDING";
    case CUDNN_STATUS_INTERNAL_ERROR: return "CUDNN_STATUS_INTERNAL_ERROR";
    case CUDNN_STATUS_EXECUTION_FAILED: return "CUDNN_STATUS_EXECUTION_FAILED";
  }
  return "unknown cuDNN status";
}

size_t cudnnGetVersion() { return CUDNN_VERSION; }

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  unload_at_exit();
  return create(handle);
}
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
  return assign_shape(tensor, {format, type, n, c, h, w});
}

cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t* filter) {
  return create(filter);
}
cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t filter) {
  return destroy(filter);
}
cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t filter, cudnnDataType_t type,
                                         cudnnTensorFormat_t format, int k, int c, int h, int w) {
  return assign_shape(filter, {{format, type, k, c, h, w}});
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

// Whether groups divide the channels is known when there are tensors.
cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t conv, int groups) {
  if (conv == nullptr || groups < 1) return CUDNN_STATUS_BAD_PARAM;
  conv->groups = groups;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolution2dForwardOutputDim(cudnnConvolutionDescriptor_t conv,
                                                    cudnnTensorDescriptor_t x,
                                                    cudnnFilterDescriptor_t w, int* N, int* C,
                                                    int* H, int* W) {
  if (conv == nullptr || x == nullptr || w == nullptr || x->C != w->C * conv->groups)
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
