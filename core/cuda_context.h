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

// The default number of threads of a block. Enough of these blocks of eight warps fit on a
// multiprocessor to fill it.
inline constexpr int block_threads = 256;

// Throws Error unless the status is success. The message names the attempted operation, its place
// in the source, and the error text of CUDA, cuBLASLt or cuDNN.
void check_call(cudaError_t status, std::string_view what,
                std::source_location where = std::source_location::current());
void check_call(cublasStatus_t status, std::string_view what,
                std::source_location where = std::source_location::current());
void check_call(cudnnStatus_t status, std::string_view what,
                std::source_location where = std::source_location::current());

// The stream for all work, and the handles of the libraries on that stream. The process has one
// context, made when the device is first used. It is never destroyed: the libraries are loaded
// after it is made, so they are unloaded before its destructor would run, which must not touch
// their handles then.
class Context {
 public:
  Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  // Returns the stream for enqueuing work now. Launches the waiting graphs first, which keeps the
  // order.
  cudaStream_t stream() {
    graphs_.flush();
    return diverted_ ? diverted_ : stream_;
  }
  // While alive, work is enqueued on another stream, except the work of libraries on their handles.
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
  // The number of blocks of 256 threads of this kernel that the whole device can hold at once. It
  // asks CUDA once for each kernel.
  int64_t resident_blocks(const void* kernel);
  cublasLtHandle_t cublas_lt();
  // The handle for calls that enqueue. Launches waiting graphs, as stream() does. The first call
  // makes the handle, because loading cuDNN takes longer than training a small model.
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
