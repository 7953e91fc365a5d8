#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "block.h"
#include "cuda_runtime_api.h"
#include "random.h"
#include "simt.h"

namespace simt {

using Work = std::function<void()>;

// One recording of an event. Work that waits for an event waits for the recording that was the last
// one when the wait was submitted.
struct Record {
  bool done = false;
  std::chrono::steady_clock::time_point time;
};

struct Queued {
  uint64_t number = 0;  // in the order of submission, over all streams
  Work work;
  std::shared_ptr<const Record> after = nullptr;  // must be done before this work runs
  std::shared_ptr<Record> completes = nullptr;    // is done after this work
  // For work with other processes: true when they have come so far. While it is false, it is called
  // again.
  std::function<bool()> met = nullptr;
};

struct Capture {
  cudaStreamCaptureMode mode;
  std::thread::id thread;
  std::vector<Work> nodes = {};
  bool invalidated = false;
};

}  // namespace simt

struct CUstream_st {
  int device = 0;        // the thread's when it was made
  bool blocking = true;  // its work is ordered with the legacy stream's
  bool destroyed = false;
  std::deque<simt::Queued> queue;
  std::unique_ptr<simt::Capture> capture;
};

struct CUevent_st {
  int device = 0;  // the thread's when it was made
  bool timing = true;
  std::shared_ptr<simt::Record> record;     // the last one, if any
  const simt::Capture* captured = nullptr;  // the capture in which it was last recorded
};

struct CUgraphNode_st {
  simt::Work work;
  std::vector<const CUgraphNode_st*> after;
};

struct CUgraph_st {
  std::vector<std::unique_ptr<CUgraphNode_st>> nodes;
};

struct CUgraphExec_st {
  std::vector<simt::Work> nodes;
};

namespace simt {

// All state of the runner, guarded by `mutex`.
struct Device {
  static constexpr uint64_t default_seed = 1;
  static constexpr size_t default_memory = size_t(1) << 30;
  static constexpr double default_nccl_patience_s = 120;
  static constexpr size_t no_capture_limit = std::numeric_limits<size_t>::max();

  std::mutex mutex;
  Random random{default_seed};
  cudaError_t sticky = cudaSuccess;
  cudaError_t reported = cudaSuccess;  // the error that the report describes
  std::string report;

  std::map<uintptr_t, size_t> memory, pinned;  // address -> bytes
  std::deque<std::pair<void*, size_t>> idle;   // freed blocks, to be used again, the oldest first
  size_t memory_total = default_memory, memory_live = 0;
  PageableCopies pageable_copies = PageableCopies::either;
  bool pageable_access = false;
  double nccl_patience_s = default_nccl_patience_s;
  size_t capture_limit = no_capture_limit;  // pieces of work
  RefusedBy capture_refused_by = RefusedBy::call;

  uint64_t submitted = 0;
  Launches launches;
  CUstream_st legacy;
  std::vector<std::unique_ptr<CUstream_st>> streams;
};

Device& device();
// How many devices the process has (SIMT_DEVICES=NUMBER, else one), and the one that this thread
// has chosen by cudaSetDevice. They share memory, but not streams.
int device_count();
int device_of_thread();

template <class Visit>
void for_each_stream(Visit visit) {
  visit(device().legacy);
  for (const auto& stream : device().streams) visit(*stream);
}

// Remembers an error for cudaGetLastError and returns it.
cudaError_t remember(cudaError_t error);

// Sets last_report() for the error, and returns the error.
cudaError_t report(cudaError_t error, const std::string& what);

// Runs `body`, an API call, under the lock and returns its result. After a failure of the device it
// returns that failure instead.
template <class Body>
cudaError_t call(Body body) {
  const std::scoped_lock lock(device().mutex);
  return remember(device().sticky != cudaSuccess ? device().sticky : body());
}

// Memory: `device_block` tells whether the bytes lie inside one live device block in full,
// `touches_device` whether any byte of them is device memory.
bool device_block(const void* pointer, size_t bytes);
bool touches_device(const void* pointer, size_t bytes);
// For work that runs on the device: throws Failure(cudaErrorIllegalAddress) unless device_block().
void require_device(const void* pointer, size_t bytes, const char* what);

// While one exists, device memory may be touched. Otherwise AddressSanitizer reports the access.
struct DeviceAccess {
  DeviceAccess();
  ~DeviceAccess();
  DeviceAccess(const DeviceAccess&) = delete;
  DeviceAccess& operator=(const DeviceAccess&) = delete;
};

// A null handle and cudaStreamLegacy mean the legacy stream. Returns null, with a report, for a
// stream of another device than this thread's, and null if there is no such stream.
CUstream_st* find_stream(cudaStream_t handle);
// Queues the work, or adds it to the graph that the stream captures.
cudaError_t submit(cudaStream_t stream, Work work);
// Queues work that needs other processes: `begin` runs in its turn, and `end` once met() is true,
// when the other processes have come to their part. Refused in a capture.
cudaError_t submit_meeting(cudaStream_t stream, Work begin, std::function<bool()> met, Work end);
// Runs all work that can run, if work with other processes is queued. Such work depends on it that
// a device computes while its host waits for something else.
void progress();
// Forgets all queued work. Its records count as done: nothing waits for them for ever.
void drop_everything();
// Runs queued work, the streams in random turns, until the stream (or every stream) has none left.
cudaError_t finish_stream(CUstream_st& stream);
cudaError_t finish_all();
// CUDA: "When an invalid operation is attempted during stream capture, any associated capture
// graphs are invalidated." The three functions below invalidate the captures that forbid a call,
// and return cudaErrorStreamCaptureUnsupported if there is one. The first is for calls on one
// stream, if it captures. The second is for calls that wait for the whole device: a capture of any
// stream in any mode forbids them. The third is for calls that may be unsafe, which only the
// relaxed mode allows.
cudaError_t refuse_in_capture(CUstream_st& stream);
cudaError_t refuse_while_any_captures();
cudaError_t refuse_unsafe_in_capture();

}  // namespace simt
