#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "core/block_cache.h"
#include "core/ledger.h"
#include "core/view.h"

// The interface of the CUDA device for the rest of core. Builds with the CUDA backend implement it
// in cuda.cpp, other builds in without_cuda.cpp, which has no device.
namespace accrue::cuda {

// The reason why Device::cuda cannot be used, or empty if it can: the build has no CUDA, or there
// is no driver, the driver is older than the runtime, or there is no device.
std::string unavailable_reason();
// Throws Error with that reason and a remedy unless the device can be used.
inline void require_device() {
  const std::string reason = unavailable_reason();
  detail::check(reason.empty(), "Device::cuda cannot be used: {}. Device::cpu runs everything",
                reason);
}
// "NVIDIA H200, compute capability 9.0, 139.7 GiB | CUDA runtime 13.0, driver 13.0, cuDNN 9.1"
std::string describe_device();

// The number of devices of this machine that CUDA_VISIBLE_DEVICES does not hide.
int device_count();
// Chooses a device other than the first. Call this before anything uses the device.
void use_device(int number);

// The device's PCI address, "0000:3b:00", which is the same for all processes that share the
// device.
std::string device_address();

// The bytes of the device's memory, used or free.
size_t total_memory();
// The driver's free bytes plus the unused bytes that the cache of blocks holds.
size_t free_memory();

// Allocates device memory from a cache of blocks, or returns null if none is left. All work runs on
// one stream, so a block may be handed out again while kernels on its former content are still
// queued.
void* allocate(size_t bytes);
void deallocate(void* block);
detail::BlockCache& blocks();
// The same for page-locked host memory. Only the stream may copy to and from it.
void* allocate_on_host(size_t bytes);
void deallocate_on_host(void* block);
detail::BlockCache& blocks_on_host();
// Unlocks the unused blocks at its end, so that other programs may have their memory.
struct BlocksOnHost {
  BlocksOnHost() = default;
  ~BlocksOnHost() { blocks_on_host().release_cached(); }
  BlocksOnHost(const BlocksOnHost&) = delete;
  BlocksOnHost& operator=(const BlocksOnHost&) = delete;
};

// These copy and fill in stream order. copy_to_host() waits until the bytes have arrived.
// copy_to_device() has read `from` when it returns.
void copy_to_device(void* to, const void* from, size_t bytes);
void copy_to_host(void* to, const void* from, size_t bytes);
void copy_on_device(void* to, const void* from, size_t bytes);
void fill(const detail::View& x, double value);

// Waits for all enqueued work. Throws Error if a kernel failed.
void synchronize();

// From now on, allows or forbids float32 products and convolutions to round their factors to TF32,
// which has 10 fraction bits instead of 23. Tensor cores multiply TF32 eight times as fast. The
// setting also holds on a machine without a device, for predictions on Device::meta_cuda.
void allow_tf32(bool allow);
bool allows_tf32();

// Page-locked host memory, which the device can copy to and from while the host continues. It
// counts on the cpu's ledger. The constructor throws OutOfMemory.
class PinnedBlock {
 public:
  PinnedBlock(size_t bytes, Category category);
  ~PinnedBlock();
  PinnedBlock(const PinnedBlock&) = delete;
  PinnedBlock& operator=(const PinnedBlock&) = delete;
  std::byte* data() const { return data_; }

 private:
  detail::Allocation allocation_;
  std::byte* data_ = nullptr;
};
// These return at once. `host` must lie in page-locked memory, and the host must not touch it until
// the stream reaches an event that was recorded after the copy.
void enqueue_copy_to_host(void* host, const void* from, size_t bytes);
void enqueue_copy_to_device(void* to, const void* host, size_t bytes);

// A point in the stream that the host can ask about and wait for.
class Event {
 public:
  Event();
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  void record();
  bool reached() const;
  void wait() const;

 private:
  void* event_ = nullptr;  // cudaEvent_t
};

// A point in the stream whose time the device records.
class Moment {
 public:
  Moment();
  ~Moment();
  Moment(const Moment&) = delete;
  Moment& operator=(const Moment&) = delete;
  void record();
  // Waits until both moments are reached.
  double seconds_since(const Moment& earlier) const;

 private:
  void* event_ = nullptr;  // cudaEvent_t
};

// Measures, by the device's own clock, the work that is enqueued between start() and stop().
class Stopwatch {
 public:
  void start() { start_.record(); }
  void stop() { stop_.record(); }
  // Waits until stop() is reached.
  double seconds() const { return stop_.seconds_since(start_); }

 private:
  Moment start_, stop_;
};

// A second stream, for work that runs concurrently with the main stream.
class SideStream {
 public:
  SideStream();
  ~SideStream();
  SideStream(const SideStream&) = delete;
  SideStream& operator=(const SideStream&) = delete;
  // Runs work(), whose kernels and copies go to the side stream. There they wait for everything
  // that the main stream has so far. work() may use only kernels and copies of this library and of
  // NCCL.
  void run(const std::function<void()>& work);
  // From now on, new work on the main stream waits for everything that the side stream has so far.
  void join();

 private:
  void* stream_ = nullptr;                  // cudaStream_t
  void *begin_ = nullptr, *end_ = nullptr;  // cudaEvent_t
};

struct RecordedGraph;  // core/graph_queue.h

// Work that is recorded once and replayed at the cost of a single launch, or less: consecutive
// graphs with nothing enqueued in between are launched as one.
class Graph {
 public:
  // Records the kernels and copies that work() enqueues, without running them. Rethrows exceptions
  // of work(), and throws Error if CUDA refuses the recording.
  explicit Graph(const std::function<void()>& work);
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  // Launches the graph in stream order. The launch may be delayed until something else is enqueued,
  // or until synchronize().
  void launch() const;

 private:
  std::unique_ptr<RecordedGraph> recorded_;
};

}  // namespace accrue::cuda
