#include "core/cuda.h"

#include "core/cuda_context.h"
#include "core/inside.h"

namespace accrue::cuda {
namespace {

std::string version(int number) { return fmt::format("{}.{}", number / 1000, number % 1000 / 10); }

[[noreturn]] void fail_at(std::string_view library, std::string_view what, std::string_view said,
                          std::source_location where) {
  fail("{} failed to {}: {} ({}:{})", library, what, said, where.file_name(), where.line());
}

// Allows cudaMalloc while a graph is being recorded, which needs the relaxed capture mode.
class RelaxedCapture {
 public:
  RelaxedCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  ~RelaxedCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

void* allocate_segment(size_t bytes) {
  const RelaxedCapture relaxed;
  void* segment = nullptr;
  const cudaError_t status = cudaMalloc(&segment, bytes);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // or the next check would find this one again
    return nullptr;
  }
  check_call(status, fmt::format("allocate {}", format_bytes(bytes)));
  return segment;
}

cudaEvent_t make_event(unsigned flags) {
  context();
  cudaEvent_t event = nullptr;
  check_call(cudaEventCreateWithFlags(&event, flags), "make an event");
  return event;
}

void record_event(void* event) {
  check_call(cudaEventRecord(static_cast<cudaEvent_t>(event), context().stream()),
             "record an event");
}

int chosen_device = 0;
bool tf32_is_allowed = false;

cudaStream_t make_stream() {
  cudaStream_t stream = nullptr;
  check_call(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "make a stream");
  return stream;
}

// CUDA keeps the choice for each thread, and every thread begins on the first device.
void choose_device_in_this_thread() {
  thread_local bool is_chosen = false;
  if (is_chosen) return;
  require_device();
  check_call(cudaSetDevice(chosen_device), fmt::format("choose device {}", chosen_device));
  is_chosen = true;
}

void free_segment(void* segment) {
  // Waiting graphs may use the segment, so they are launched first. cudaFree waits for launched
  // work.
  context().graphs().flush_and_keep_error();
  cudaFree(segment);  // a failure is ignored: at exit the driver may be gone
}

void* lock_segment(size_t bytes) {
  context();
  void* segment = nullptr;
  if (cudaMallocHost(&segment, bytes) == cudaSuccess) return segment;
  cudaGetLastError();  // or the next check would find this one again
  return nullptr;
}

// Waits first, because copies to and from the segment may still be running. Failures come again at
// the next check.
void unlock_segment(void* segment) {
  context().graphs().flush_and_keep_error();
  cudaDeviceSynchronize();
  cudaFreeHost(segment);
}

// True if the device can read pageable memory, so that a copy may read it only when the stream
// reaches the copy. On other devices the driver has read it into pinned memory when the call
// returns.
bool reads_pageable_memory() {
  int yes = 0;
  check_call(cudaDeviceGetAttribute(&yes, cudaDevAttrPageableMemoryAccess, chosen_device),
             "ask whether a device reads pageable memory");
  return yes != 0;
}

}  // namespace

void check_call(cudaError_t status, std::string_view what, std::source_location where) {
  if (status != cudaSuccess)
    fail_at("CUDA", what,
            fmt::format("{}: {}", cudaGetErrorName(status), cudaGetErrorString(status)), where);
}

void check_call(cublasStatus_t status, std::string_view what, std::source_location where) {
  if (status != CUBLAS_STATUS_SUCCESS)
    fail_at("cuBLASLt", what, cublasLtGetStatusString(status), where);
}

void check_call(cudnnStatus_t status, std::string_view what, std::source_location where) {
  if (status != CUDNN_STATUS_SUCCESS) fail_at("cuDNN", what, cudnnGetErrorString(status), where);
}

Context::Context() : stream_(make_stream()), graphs_(stream_) {
  check_call(cudaGetDeviceProperties(&properties_, chosen_device),
             fmt::format("ask what device {} is", chosen_device));
}

int64_t Context::resident_blocks(const void* kernel) {
  int64_t& blocks = resident_blocks_[kernel];
  if (blocks > 0) return blocks;
  int on_one = 0;
  check_call(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&on_one, kernel, block_threads, 0),
             "ask how many blocks fit on a multiprocessor");
  return blocks = int64_t{std::max(on_one, 1)} * multiprocessors();
}

cublasLtHandle_t Context::cublas_lt() {
  if (!cublas_lt_) check_call(cublasLtCreate(&cublas_lt_), "make its handle");
  return cublas_lt_;
}

cudnnHandle_t Context::cudnn() {
  if (!cudnn_) {
    check_call(cudnnCreate(&cudnn_), "make its handle");
    check_call(cudnnSetStream(cudnn_, stream_), "use the stream");
  }
  graphs_.flush();
  return cudnn_;
}

Context& context() {
  choose_device_in_this_thread();
  static Context& only = *new Context;
  return only;
}

std::string unavailable_reason() {
  int driver = 0, runtime = 0, devices = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  const cudaError_t status = cudaGetDeviceCount(&devices);
  if (status == cudaSuccess && devices > 0) return {};
  cudaGetLastError();
  if (driver == 0) return "there is no NVIDIA driver on this machine";
  if (status == cudaErrorInsufficientDriver)
    return fmt::format("the NVIDIA driver supports CUDA {}, older than the runtime's {}",
                       version(driver), version(runtime));
  if (status == cudaErrorNoDevice || status == cudaSuccess)
    return "there is no CUDA device on this machine (or CUDA_VISIBLE_DEVICES hides it)";
  return fmt::format("{}: {}", cudaGetErrorName(status), cudaGetErrorString(status));
}

std::string describe_device() {
  if (const std::string reason = unavailable_reason(); !reason.empty()) return "none: " + reason;
  const cudaDeviceProp& device = context().properties();
  int driver = 0, runtime = 0;
  check_call(cudaDriverGetVersion(&driver), "ask for the driver's version");
  check_call(cudaRuntimeGetVersion(&runtime), "ask for the runtime's version");
  return fmt::format(
      "{}, compute capability {}.{}, {} multiprocessors, {} | CUDA runtime {}, driver {}, "
      "cuBLASLt {}, cuDNN {}",
      device.name, device.major, device.minor, device.multiProcessorCount,
      format_bytes(device.totalGlobalMem), version(runtime), version(driver), cublasLtGetVersion(),
      cudnnGetVersion());
}

int device_count() {
  int devices = 0;
  return cudaGetDeviceCount(&devices) == cudaSuccess ? devices : 0;
}

void use_device(int number) { chosen_device = number; }

std::string device_address() {
  const cudaDeviceProp& device = context().properties();
  return fmt::format("{:04x}:{:02x}:{:02x}", device.pciDomainID, device.pciBusID,
                     device.pciDeviceID);
}

size_t total_memory() { return context().properties().totalGlobalMem; }

size_t free_memory() {
  context();
  size_t free = 0, total = 0;
  check_call(cudaMemGetInfo(&free, &total), "ask how much memory is free");
  const Reserve cache = blocks().statistics();
  return free + cache.reserved - cache.allocated;
}

BlockCache& blocks() {
  static BlockCache cache({allocate_segment, free_segment});
  return cache;
}

void* allocate(size_t bytes) {
  context();
  return blocks().take(bytes);
}

void deallocate(void* block) { blocks().give(block); }

BlockCache& blocks_on_host() {
  static BlockCache cache({lock_segment, unlock_segment});
  return cache;
}

void* allocate_on_host(size_t bytes) { return blocks_on_host().take(bytes); }

void deallocate_on_host(void* block) { blocks_on_host().give(block); }

void copy_to_device(void* to, const void* from, size_t bytes) {
  enqueue_copy_to_device(to, from, bytes);
  if (reads_pageable_memory()) synchronize();
}

void copy_to_host(void* to, const void* from, size_t bytes) {
  check_call(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, context().stream()),
             "copy to the host");
  synchronize();
}

void copy_on_device(void* to, const void* from, size_t bytes) {
  check_call(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, context().stream()),
             "copy on the device");
}

void allow_tf32(bool allow) { tf32_is_allowed = allow; }
bool allows_tf32() { return tf32_is_allowed; }

void synchronize() {
  check_call(cudaStreamSynchronize(context().stream()), "finish what was enqueued");
}

PinnedBlock::PinnedBlock(size_t bytes, Category category)
    : allocation_({static_cast<int64_t>(bytes)}, DType::u8, Device::cpu, category) {
  context();
  void* block = nullptr;
  const cudaError_t status = cudaMallocHost(&block, bytes);
  if (status != cudaSuccess) {
    cudaGetLastError();
    throw OutOfMemory(
        ledger(Device::cpu)
            .shortage(allocation_, fmt::format("the machine cannot page-lock that much memory: {}",
                                               cudaGetErrorString(status))));
  }
  data_ = static_cast<std::byte*>(block);
}

PinnedBlock::~PinnedBlock() { cudaFreeHost(data_); }

void enqueue_copy_to_host(void* host, const void* from, size_t bytes) {
  check_call(cudaMemcpyAsync(host, from, bytes, cudaMemcpyDeviceToHost, context().stream()),
             "copy to the host");
}

void enqueue_copy_to_device(void* to, const void* host, size_t bytes) {
  check_call(cudaMemcpyAsync(to, host, bytes, cudaMemcpyHostToDevice, context().stream()),
             "copy to the device");
}

Event::Event() : event_(make_event(cudaEventDisableTiming)) {}

Event::~Event() { cudaEventDestroy(static_cast<cudaEvent_t>(event_)); }

void Event::record() { record_event(event_); }

bool Event::reached() const {
  const cudaError_t status = cudaEventQuery(static_cast<cudaEvent_t>(event_));
  if (status == cudaErrorNotReady) return false;
  check_call(status, "ask about an event");
  return true;
}

void Event::wait() const {
  check_call(cudaEventSynchronize(static_cast<cudaEvent_t>(event_)), "wait for an event");
}

Moment::Moment() : event_(make_event(cudaEventDefault)) {}

Moment::~Moment() { cudaEventDestroy(static_cast<cudaEvent_t>(event_)); }

void Moment::record() { record_event(event_); }

double Moment::seconds_since(const Moment& earlier) const {
  float ms = 0;
  check_call(cudaEventSynchronize(static_cast<cudaEvent_t>(event_)), "wait for an event");
  check_call(cudaEventElapsedTime(&ms, static_cast<cudaEvent_t>(earlier.event_),
                                  static_cast<cudaEvent_t>(event_)),
             "tell the time between two events");
  return ms * 1e-3;
}

namespace {

// Makes new work on `later` wait for everything that `earlier` has so far.
void order(cudaStream_t earlier, cudaStream_t later, void* event) {
  check_call(cudaEventRecord(static_cast<cudaEvent_t>(event), earlier), "record an event");
  check_call(cudaStreamWaitEvent(later, static_cast<cudaEvent_t>(event), 0),
             "have a stream wait for an event");
}

}  // namespace

SideStream::SideStream()
    : stream_(make_stream()),
      begin_(make_event(cudaEventDisableTiming)),
      end_(make_event(cudaEventDisableTiming)) {}

SideStream::~SideStream() {
  cudaEventDestroy(static_cast<cudaEvent_t>(begin_));
  cudaEventDestroy(static_cast<cudaEvent_t>(end_));
  cudaStreamDestroy(static_cast<cudaStream_t>(stream_));
}

void SideStream::run(const std::function<void()>& work) {
  order(context().stream(), static_cast<cudaStream_t>(stream_), begin_);
  const Context::Diverted diverted(context(), static_cast<cudaStream_t>(stream_));
  work();
}

void SideStream::join() { order(static_cast<cudaStream_t>(stream_), context().stream(), end_); }

Graph::Graph(const std::function<void()>& work) : recorded_(new RecordedGraph{}) {
  const BlockCache::Recording recording(blocks());
  const cudaStream_t stream = context().stream();
  cudaGraph_t& graph = recorded_->graph;
  bool recording_goes_on = false;
  try {
    check_call(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "begin recording");
    recording_goes_on = true;
    work();
    recording_goes_on = false;
    check_call(cudaStreamEndCapture(stream, &graph), "end recording");
    check_call(cudaGraphGetNodes(graph, nullptr, &recorded_->nodes),
               "count the nodes of a recorded graph");
    check_call(cudaGraphInstantiate(&recorded_->executable, graph, 0),
               "instantiate a recorded graph");
  } catch (...) {
    if (recording_goes_on) cudaStreamEndCapture(stream, &graph);
    if (graph) cudaGraphDestroy(graph);
    cudaGetLastError();  // or the next check would find this one again
    throw;
  }
}

Graph::~Graph() {
  context().graphs().flush_and_keep_error();
  context().graphs().forget(*recorded_);
  cudaGraphExecDestroy(recorded_->executable);
  cudaGraphDestroy(recorded_->graph);
}

void Graph::launch() const { context().graphs().add(*recorded_); }

}  // namespace accrue::cuda
