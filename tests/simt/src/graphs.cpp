#include "device.h"

namespace simt {
namespace {

thread_local cudaStreamCaptureMode thread_mode = cudaStreamCaptureModeGlobal;

bool forbids_unsafe_calls(const Capture& capture) {
  if (thread_mode == cudaStreamCaptureModeRelaxed) return false;
  const bool own = capture.thread == std::this_thread::get_id();
  return own ? capture.mode != cudaStreamCaptureModeRelaxed
             : capture.mode == cudaStreamCaptureModeGlobal &&
                   thread_mode == cudaStreamCaptureModeGlobal;
}

}  // namespace

cudaError_t refuse_in_capture(CUstream_st& stream) {
  if (!stream.capture) return cudaSuccess;
  stream.capture->invalidated = true;
  return cudaErrorStreamCaptureUnsupported;
}

cudaError_t refuse_while_any_captures() {
  cudaError_t error = cudaSuccess;
  for (const auto& stream : device().streams) {
    if (const cudaError_t refused = refuse_in_capture(*stream)) error = refused;
  }
  return error;
}

cudaError_t refuse_unsafe_in_capture() {
  cudaError_t error = cudaSuccess;
  for (const auto& stream : device().streams) {
    if (!stream->capture || !forbids_unsafe_calls(*stream->capture)) continue;
    error = refuse_in_capture(*stream);
  }
  return error;
}

}  // namespace simt

using namespace simt;

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return call([&] {
    if (mode == nullptr || *mode < cudaStreamCaptureModeGlobal ||
        *mode > cudaStreamCaptureModeRelaxed) {
      return cudaErrorInvalidValue;
    }
    std::swap(*mode, thread_mode);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  return call([&] {
    CUstream_st* stream = find_stream(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (stream == &device().legacy) return cudaErrorStreamCaptureUnsupported;
    if (stream->capture) return cudaErrorIllegalState;
    stream->capture = std::make_unique<Capture>(mode, std::this_thread::get_id());
    return cudaSuccess;
  });
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  return call([&] {
    if (graph == nullptr) return cudaErrorInvalidValue;
    *graph = nullptr;
    CUstream_st* stream = find_stream(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (!stream->capture) return cudaErrorIllegalState;
    if (stream->capture->mode != cudaStreamCaptureModeRelaxed &&
        stream->capture->thread != std::this_thread::get_id()) {
      return cudaErrorStreamCaptureWrongThread;
    }
    const auto capture = std::move(stream->capture);
    if (capture->invalidated) return cudaErrorStreamCaptureInvalidated;
    *graph = new CUgraph_st;
    for (Work& work : capture->nodes) {
      (*graph)->nodes.push_back(std::make_unique<CUgraphNode_st>(std::move(work)));
    }
    return cudaSuccess;
  });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  return call([&] {
    CUstream_st* stream = find_stream(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    *status = !stream->capture               ? cudaStreamCaptureStatusNone
              : stream->capture->invalidated ? cudaStreamCaptureStatusInvalidated
                                             : cudaStreamCaptureStatusActive;
    return cudaSuccess;
  });
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  return call([&] {
    if (graph == nullptr || count == nullptr) return cudaErrorInvalidValue;
    const size_t room = *count, n = graph->nodes.size();
    *count = nodes == nullptr ? n : std::min(room, n);
    for (size_t i = 0; nodes != nullptr && i < room; ++i) {
      nodes[i] = i < n ? graph->nodes[i].get() : nullptr;
    }
    return cudaSuccess;
  });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  return call([&] {
    if (exec == nullptr || graph == nullptr) return cudaErrorInvalidValue;
    *exec = new CUgraphExec_st;
    for (const auto& node : graph->nodes) (*exec)->nodes.push_back(node->work);
    return cudaSuccess;
  });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  return call([&] {
    if (exec == nullptr) return cudaErrorInvalidValue;
    return submit(stream, [nodes = exec->nodes] {
      for (const Work& work : nodes) work();
    });
  });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return call([&] {
    if (graph == nullptr) return cudaErrorInvalidValue;
    delete graph;
    return cudaSuccess;
  });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  return call([&] {
    if (exec == nullptr) return cudaErrorInvalidValue;
    delete exec;
    return cudaSuccess;
  });
}
