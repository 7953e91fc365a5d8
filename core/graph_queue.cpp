#include "core/graph_queue.h"

#include <algorithm>

#include "core/cuda_context.h"

namespace accrue::cuda {
namespace {

// Of graphs launched as one. More micro-steps are several launches, each of which the device is
// busy with for long.
constexpr size_t longest_sequence = 64;
// A run has a few: a window's first micro-steps and its others, and those of the short last one.
constexpr size_t most_sequences = 32;

}  // namespace

void GraphQueue::add(const RecordedGraph& recorded) {
  waiting_.push_back(recorded);
  if (waiting_.size() == longest_sequence) flush();
}

void GraphQueue::flush() {
  if (waiting_.empty()) return;
  const Sequence sequence = std::exchange(waiting_, {});
  if (sequence.size() == 1) return launch(sequence.front().executable);
  const auto known = known_.find(sequence);
  if (known == known_.end()) {
    if (known_.size() == most_sequences) forget_if([](const Sequence&) { return true; });
    known_[sequence] = {};
  } else if (!std::exchange(known->second.has_come_again, true)) {
    known->second.executable = made_of(sequence);
  }
  if (known != known_.end() && known->second.executable) return launch(known->second.executable);
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

// Null if the device has no memory for it.
cudaGraphExec_t GraphQueue::made_of(const Sequence& sequence) {
  cudaGraph_t whole = nullptr;
  check_call(cudaGraphCreate(&whole, 0), "make a graph of graphs");
  cudaGraphNode_t before = nullptr;
  cudaError_t status = cudaSuccess;
  for (const RecordedGraph& recorded : sequence) {
    cudaGraphNode_t node = nullptr;
    if (status == cudaSuccess)
      status = cudaGraphAddChildGraphNode(&node, whole, before ? &before : nullptr, before ? 1 : 0,
                                          recorded.graph);
    before = node;
  }
  cudaGraphExec_t executable = nullptr;
  if (status == cudaSuccess) status = cudaGraphInstantiate(&executable, whole, 0);
  cudaGraphDestroy(whole);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return nullptr;
  }
  check_call(status, "make a graph of graphs");
  return executable;
}

}  // namespace accrue::cuda
