#pragma once

#include <cublasLt.h>
#include <cuda_runtime.h>
#include <cudnn.h>

#include <source_location>
#include <string_view>
#include <unordered_map>

#include "core/error.h"
#include "core/graph_queue.h"

namespace accrue::cuda {

// Threads of a block, for every kernel that does not say otherwise. Enough such blocks of eight
// warps fit on a multiprocessor to fill it.
inline constexpr int block_threads = 256;

// Throws an Error that names what was tried, where, and what CUDA, cuBLASLt or cuDNN said, unless
// the status is success.
void check_call(cudaError_t status, std::string_view what,
                std::source_location where = std::source_location::current());
void check_call(cublasStatus_t status, std::string_view what,
                std::source_location where = std::source_location::current());
void check_call(cudnnStatus_t status, std::string_view what,
                std::source_location where = std::source_location::current());

// The stream that all work goes to, and the libraries' handles on it. There is one per process,
// made when the device is first used. It is never destroyed: the libraries are loaded after it is
// made, so at exit they are gone before it would be, and their handles must not be touched then.
class Context {
 public:
  Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  // Returns the stream for enqueuing work now; launches the graphs that wait, so that they come
  // first.
  cudaStream_t stream() {
    graphs_.flush();
    return diverted_ ? diverted_ : stream_;
  }
  // While it lives, work is enqueued on another stream (but for the libraries' on their handles).
  class Diverted {
   public:
    Diverted(Context& context, cudaStream_t to) : context_(context) { context.diverted_ = to; }
    ~Diverted() { context_.diverted_ = nullptr; }
    Diverted(const Diverted&) = delete;
    Diverted& operator=(const Diverted&) = delete;

   private:
    Context& context_;
  };
  GraphQueue& graphs() { return graphs_; }
  int multiprocessors() const { return properties_.multiProcessorCount; }
  const cudaDeviceProp& properties() const { return properties_; }
  // The blocks of a kernel of 256 threads that the whole device can hold. CUDA is asked once for
  // each kernel.
  int64_t resident_blocks(const void* kernel);
  cublasLtHandle_t cublas_lt();
  // The handle for calls that enqueue; launches waiting graphs, as stream() does. It is made when
  // first asked for, because loading cuDNN takes longer than training a small model.
  cudnnHandle_t cudnn();

 private:
  cudaStream_t stream_;
  cudaStream_t diverted_ = nullptr;
  GraphQueue graphs_;
  cudaDeviceProp properties_{};
  cublasLtHandle_t cublas_lt_ = nullptr;
  cudnnHandle_t cudnn_ = nullptr;
  std::unordered_map<const void*, int64_t> resident_blocks_;
};

// Throws Error if there is no usable device.
Context& context();

}  // namespace accrue::cuda
