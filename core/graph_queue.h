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
  auto operator<=>(const RecordedGraph&) const = default;
};

// Recorded graphs on their way into the stream. Those that follow one another are launched as one
// graph, made when their sequence comes for the second time: so the micro-steps of a window, which
// nothing else comes between, cost the host one launch and the device no wait between them.
class GraphQueue {
 public:
  explicit GraphQueue(cudaStream_t stream) : stream_(stream) {}
  GraphQueue(const GraphQueue&) = delete;
  GraphQueue& operator=(const GraphQueue&) = delete;

  // Launched by flush() at the latest.
  void add(const RecordedGraph& recorded);
  // Launches what waits. To be called before anything else goes into the stream, and before memory
  // goes back to the driver. Throws Error if CUDA refuses it, and first of all what was kept.
  void flush();
  // For destructors and whoever else must not throw: the next flush() does it for them.
  void flush_and_keep_error() noexcept;
  // Forgets the sequences with this graph, which is to be destroyed and does not wait.
  void forget(const RecordedGraph& recorded);

 private:
  using Sequence = std::vector<RecordedGraph>;
  // Launched one by one the first time, and where the device has no memory for the whole.
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
  std::exception_ptr error_;
  std::map<Sequence, Known> known_;
};

}  // namespace accrue::cuda
