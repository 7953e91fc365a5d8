#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "core/block_cache.h"
#include "core/ledger.h"
#include "core/view.h"

// The CUDA device as the rest of core sees it. Built from cuda.cpp where the CUDA backend is
// built, else from without_cuda.cpp, in which there is no device.
namespace accrue::cuda {

// The reason why Device::cuda cannot be used: built without CUDA, no driver, driver older than the
// runtime, no device. Empty if it can be used.
std::string unavailable_reason();
// Throws Error with that reason and a remedy unless the device can be used.
inline void require_device() {
  const std::string reason = unavailable_reason();
  detail::check(reason.empty(), "Device::cuda cannot be used: {}. Device::cpu runs everything",
                reason);
}
// "NVIDIA H200, compute capability 9.0, 139.7 GiB | CUDA runtime 13.0, driver 13.0, cuDNN 9.1"
std::string describe_device();

// How many devices this machine has, or CUDA_VISIBLE_DEVICES leaves.
int device_count();
// Chooses one of them, instead of the first. Call this before anything uses the device.
void use_device(int number);

// Where on its machine the device is, "0000:3b:00": the same for processes that share it.
std::string device_address();

// The bytes of the device's memory, whoever uses it.
size_t total_memory();
// The bytes that the driver has left, plus those that the cache of blocks holds without using them.
size_t free_memory();

// Allocates device memory from a cache of blocks; returns null if none is left. All work is on one
// stream, so a block may be handed out again while kernels on its former content are still queued.
void* allocate(size_t bytes);
void deallocate(void* block);
detail::BlockCache& blocks();
// The same for page-locked memory of the host, which nothing but the stream may copy to and from.
void* allocate_on_host(size_t bytes);
void deallocate_on_host(void* block);

// Copies and fills in the order of the stream. copy_to_host() waits until the bytes have arrived;
// copy_to_device() has read `from` when it returns.
void copy_to_device(void* to, const void* from, size_t bytes);
void copy_to_host(void* to, const void* from, size_t bytes);
void copy_on_device(void* to, const void* from, size_t bytes);
void fill(const detail::View& x, double value);

// Waits for everything that was enqueued. Throws Error if a kernel failed.
void synchronize();

// Allows or forbids, from now on, that float32 products and convolutions round their factors to
// TF32, with 10 fraction bits instead of 23. Tensor cores multiply those eight times as fast.
// What is predicted for a device that is not there knows of it, too.
void allow_tf32(bool allow);
bool allows_tf32();

// Page-locked host memory, which the device copies to and from while the host goes on. It is on the
// cpu's ledger. The constructor throws OutOfMemory.
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
// an event that is recorded afterwards is reached.
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

// A point in the stream whose time the device notes.
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

// A second stream, for work that goes on beside what the stream has next.
class SideStream {
 public:
  SideStream();
  ~SideStream();
  SideStream(const SideStream&) = delete;
  SideStream& operator=(const SideStream&) = delete;
  // What work() enqueues goes to the side stream, and comes after all that the stream has got so
  // far. It may use only kernels and copies of this library and of NCCL's.
  void run(const std::function<void()>& work);
  // What the stream gets from now on comes after all that the side stream has got.
  void join();

 private:
  void* stream_ = nullptr;                  // cudaStream_t
  void *begin_ = nullptr, *end_ = nullptr;  // cudaEvent_t
};

struct RecordedGraph;  // core/graph_queue.h

// Work that is recorded once and replayed at the cost of a single launch, or less: graphs that
// follow one another, with nothing enqueued in between, are launched as one.
class Graph {
 public:
  // Records what work() enqueues, without running it. Throws what work() throws, and Error if CUDA
  // refuses the recording.
  explicit Graph(const std::function<void()>& work);
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  // Launches the graph in its turn. The launch may be delayed until something else is enqueued, or
  // until synchronize().
  void launch() const;

 private:
  std::unique_ptr<RecordedGraph> recorded_;
};

}  // namespace accrue::cuda
