#include "core/cuda.h"

#include "core/cuda_context.h"
#include "core/memory.h"

namespace accrue::cuda {
namespace {

std::string version(int number) { return fmt::format("{}.{}", number / 1000, number % 1000 / 10); }

[[noreturn]] void fail_at(std::string_view library, std::string_view what, std::string_view said,
                          std::source_location where) {
  fail("{} failed to {}: {} ({}:{})", library, what, said, where.file_name(), where.line());
}

// Segments are asked for while a graph is being recorded, too; that needs the relaxed mode.
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

void free_segment(void* segment) {
  const RelaxedCapture relaxed;
  cudaFree(segment);  // nothing can be done about a failure, and at exit the driver may be gone
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

Context::Context() {
  require_device();
  check_call(cudaSetDevice(0), "choose device 0");
  check_call(cudaGetDeviceProperties(&properties_, 0), "ask what device 0 is");
  check_call(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "make a stream");
}

Context::~Context() {
  if (cudnn_) cudnnDestroy(cudnn_);
  if (cublas_lt_) cublasLtDestroy(cublas_lt_);
  cudaStreamDestroy(stream_);
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
  return cudnn_;
}

Context& context() {
  static Context only;
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

BlockCache& blocks() {
  static BlockCache cache({allocate_segment, free_segment});
  return cache;
}

void* allocate(size_t bytes) {
  context();
  return blocks().take(bytes);
}

void deallocate(void* block) { blocks().give(block); }

void copy_to_device(void* to, const void* from, size_t bytes) {
  check_call(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, context().stream()),
             "copy to the device");
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

void synchronize() {
  check_call(cudaStreamSynchronize(context().stream()), "finish what was enqueued");
}

}  // namespace accrue::cuda
