#include "core/graph_queue.h"

#include <algorithm>
#include <utility>

#include "core/cuda_context.h"
#include "core/refused_graphs.h"

namespace accrue::cuda {
namespace {

// A run has a few sequences: a window's first micro-steps, its other micro-steps, and the
// micro-steps of the short last window.
constexpr size_t most_sequences = 32;

}  // namespace

void GraphQueue::add(const RecordedGraph& recorded) {
  if (waiting_nodes_ + recorded.nodes > most_nodes) flush();
  waiting_.push_back(recorded);
  waiting_nodes_ += recorded.nodes;
}

void GraphQueue::flush() {
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  launch_waiting();
}

void GraphQueue::flush_and_keep_error() noexcept {
  try {
    launch_waiting();
  } catch (...) {
    if (!error_) error_ = std::current_exception();
  }
}

void GraphQueue::launch_waiting() {
  if (waiting_.empty()) return;
  const Sequence sequence = std::exchange(waiting_, {});
  waiting_nodes_ = 0;
  if (sequence.size() == 1) return launch(sequence.front().executable);
  if (known_.size() == most_sequences && !known_.contains(sequence))
    forget_if([](const Sequence&) { return true; });
  Known& known = known_[sequence];
  if (++known.times == 2) known.executable = made_of(sequence);
  if (known.executable) return launch(known.executable);
  for (const RecordedGraph& recorded : sequence) launch(recorded.executable);
}

void GraphQueue::forget(const RecordedGraph& recorded) {
  forget_if([&](const Sequence& sequence) {
    return std::ranges::find(sequence, recorded) != sequence.end();
  });
}

void GraphQueue::forget_if(const std::function<bool(const Sequence&)>& stale) {
  std::erase_if(known_, [&](const auto& entry) {
    if (!stale(entry.first)) return false;
    if (entry.second.executable) cudaGraphExecDestroy(entry.second.executable);
    return true;
  });
}

void GraphQueue::launch(cudaGraphExec_t executable) {
  check_call(cudaGraphLaunch(executable, stream_), "replay what was recorded");
}

// Returns null if CUDA refuses the joined graph.
cudaGraphExec_t GraphQueue::made_of(const Sequence& sequence) {
  cudaGraph_t whole = nullptr;
  cudaError_t status = cudaGraphCreate(&whole, 0);
  cudaGraphNode_t before = nullptr;
  for (const RecordedGraph& recorded : sequence) {
    cudaGraphNode_t node = nullptr;
    if (status == cudaSuccess)
      status = cudaGraphAddChildGraphNode(&node, whole, before ? &before : nullptr, before ? 1 : 0,
                                          recorded.graph);
    before = node;
  }
  cudaGraphExec_t executable = nullptr;
  if (status == cudaSuccess) status = cudaGraphInstantiate(&executable, whole, 0);
  if (whole) cudaGraphDestroy(whole);
  if (status == cudaSuccess) return executable;
  add_refused_graph(fmt::format("CUDA failed to make a graph of graphs: {}: {}",
                                cudaGetErrorName(status), cudaGetErrorString(status)));
  cudaGetLastError();  // or the next check would find this one again
  return nullptr;
}

}  // namespace accrue::cuda
