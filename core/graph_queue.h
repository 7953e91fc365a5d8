#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <vector>

namespace accrue::cuda {

struct RecordedGraph {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  size_t nodes = 0;
  auto operator<=>(const RecordedGraph&) const = default;
};

// Recorded graphs on their way into the stream. Consecutive graphs are launched as one graph, which
// is made when their sequence comes for the second time. So the micro-steps of a window, with
// nothing else between them, cost the host one launch, and the device never waits.
class GraphQueue {
 public:
  // The most kernels and copies that are launched as one. The time to make a graph and its memory
  // grow with this number. A launch costs the host some 10 us, which is small beside the 4 ms or
  // more that 4096 kernels of 1 us take. 4096 nodes are 290 micro-steps of mlp, or 4 of resnet50.
  static constexpr size_t most_nodes = 4096;

  explicit GraphQueue(cudaStream_t stream) : stream_(stream) {}
  GraphQueue(const GraphQueue&) = delete;
  GraphQueue& operator=(const GraphQueue&) = delete;

  // Queues a graph; flush() launches it at the latest.
  void add(const RecordedGraph& recorded);
  // Launches the waiting graphs. Call this before anything else goes into the stream, and before
  // memory goes back to the driver. Throws Error if CUDA refuses a launch; an error from
  // flush_and_keep_error() is thrown first.
  void flush();
  // The same for destructors and other callers that must not throw. The next flush() throws the
  // error.
  void flush_and_keep_error() noexcept;
  // Forgets the sequences that contain this graph. Call this before the graph is destroyed, when it
  // is not waiting.
  void forget(const RecordedGraph& recorded);

 private:
  using Sequence = std::vector<RecordedGraph>;
  // A sequence of graphs. They are launched one by one the first time, and always if CUDA refuses
  // the joined graph.
  struct Known {
    int64_t times = 0;
    cudaGraphExec_t executable = nullptr;
  };

  void launch_waiting();
  void forget_if(const std::function<bool(const Sequence&)>& stale);
  void launch(cudaGraphExec_t executable);
  static cudaGraphExec_t made_of(const Sequence& sequence);

  cudaStream_t stream_;
  Sequence waiting_;
  size_t waiting_nodes_ = 0;
  std::exception_ptr error_;
  std::map<Sequence, Known> known_;
};

}  // namespace accrue::cuda
