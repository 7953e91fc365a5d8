#include <algorithm>
#include <set>

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

// Each node's work comes after the work of the nodes that it depends on. Nodes without an order
// between them come in random order.
std::vector<Work> in_some_order(const CUgraph_st& graph) {
  std::vector<Work> works;
  std::set<const CUgraphNode_st*> done;
  while (works.size() < graph.nodes.size()) {
    std::vector<const CUgraphNode_st*> ready;
    for (const auto& node : graph.nodes) {
      const bool may_run = std::ranges::all_of(
          node->after, [&](const auto* before) { return done.contains(before); });
      if (may_run && !done.contains(node.get())) ready.push_back(node.get());
    }
    const CUgraphNode_st* next = ready[device().random.below(uint32_t(ready.size()))];
    done.insert(next);
    works.push_back(next->work);
  }
  return works;
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
    if (capture->invalidated || capture->nodes.size() > device().capture_limit)
      return cudaErrorStreamCaptureInvalidated;
    *graph = new CUgraph_st;
    auto& nodes = (*graph)->nodes;
    for (Work& work : capture->nodes) {
      auto node = std::make_unique<CUgraphNode_st>(std::move(work));
      if (!nodes.empty()) node->after = {nodes.back().get()};
      nodes.push_back(std::move(node));
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

cudaError_t cudaGraphCreate(cudaGraph_t* graph, unsigned flags) {
  return call([&] {
    if (graph == nullptr || flags != 0) return cudaErrorInvalidValue;
    *graph = new CUgraph_st;
    return cudaSuccess;
  });
}

// The child is copied.
cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                       const cudaGraphNode_t* dependencies, size_t count,
                                       cudaGraph_t child) {
  return call([&] {
    if (node == nullptr || graph == nullptr || child == nullptr || graph == child ||
        (count > 0 && dependencies == nullptr)) {
      return cudaErrorInvalidValue;
    }
    auto added = std::make_unique<CUgraphNode_st>();
    for (size_t i = 0; i < count; ++i) {
      const auto is_it = [&](const auto& other) { return other.get() == dependencies[i]; };
      if (!std::ranges::any_of(graph->nodes, is_it)) return cudaErrorInvalidValue;
      added->after.push_back(dependencies[i]);
    }
    added->work = [works = in_some_order(*child)] {
      for (const Work& work : works) work();
    };
    *node = added.get();
    graph->nodes.push_back(std::move(added));
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
    *exec = new CUgraphExec_st{in_some_order(*graph)};
    return cudaSuccess;
  });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  return call([&] {
    if (exec == nullptr) return cudaErrorInvalidValue;
    ++device().launches.graphs;
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
