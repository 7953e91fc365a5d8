#include "device.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>

namespace simt {
namespace {

thread_local cudaError_t last_error = cudaSuccess;
thread_local int chosen_device = 0;  // CUDA: each thread begins with the first

struct ErrorText {
  cudaError_t error;
  const char *name, *text;
};

constexpr auto error_texts = std::to_array<ErrorText>({
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration",
     "invalid configuration argument"},
    {cudaErrorInvalidMemcpyDirection, "cudaErrorInvalidMemcpyDirection",
     "invalid copy direction for memcpy"},
    {cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver",
     "CUDA driver version is insufficient for CUDA runtime version"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorIllegalState, "cudaErrorIllegalState",
     "the operation cannot be performed in the present state"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress",
     "an illegal memory access was encountered"},
    {cudaErrorLaunchOutOfResources, "cudaErrorLaunchOutOfResources",
     "too many resources requested for launch"},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
    {cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
     "operation not permitted when stream is capturing"},
    {cudaErrorStreamCaptureInvalidated, "cudaErrorStreamCaptureInvalidated",
     "operation failed due to a previous error during capture"},
    {cudaErrorStreamCaptureIsolation, "cudaErrorStreamCaptureIsolation",
     "dependency created on uncaptured work in another stream"},
    {cudaErrorStreamCaptureImplicit, "cudaErrorStreamCaptureImplicit",
     "operation would make the legacy stream depend on a capturing blocking stream"},
    {cudaErrorCapturedEvent, "cudaErrorCapturedEvent",
     "operation not permitted on an event last recorded in a capturing stream"},
    {cudaErrorStreamCaptureWrongThread, "cudaErrorStreamCaptureWrongThread",
     "attempt to terminate a thread-local capture sequence from another thread"},
    {cudaErrorUnknown, "cudaErrorUnknown", "unknown error"},
});

const ErrorText* find_text(cudaError_t error) {
  const auto it = std::ranges::find(error_texts, error, &ErrorText::error);
  return it == error_texts.end() ? nullptr : &*it;
}

}  // namespace

// Never destroyed, so that static objects of the program may still free their memory.
Device& device() {
  static Device& device = *new Device;
  return device;
}

int device_count() {
  const char* const count = std::getenv("SIMT_DEVICES");
  return count != nullptr ? std::atoi(count) : 1;
}

int device_of_thread() { return chosen_device; }

cudaError_t remember(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

cudaError_t report(cudaError_t error, const std::string& what) {
  device().reported = error;
  device().report = what;
  return error;
}

void set_seed(uint64_t seed) {
  const std::scoped_lock lock(device().mutex);
  device().random = Random(seed);
}

void set_device_memory(size_t bytes) {
  const std::scoped_lock lock(device().mutex);
  device().memory_total = bytes;
}

void set_pageable_copies(PageableCopies copies) {
  const std::scoped_lock lock(device().mutex);
  device().pageable_copies = copies;
}

void set_pageable_access(bool direct) {
  const std::scoped_lock lock(device().mutex);
  device().pageable_access = direct;
}

void set_nccl_patience(double seconds) {
  const std::scoped_lock lock(device().mutex);
  device().nccl_patience_s = seconds;
}

void refuse_captures_from(size_t works, RefusedBy by) {
  const std::scoped_lock lock(device().mutex);
  device().capture_limit = works;
  device().capture_refused_by = by;
}

size_t live_device_bytes() {
  const std::scoped_lock lock(device().mutex);
  return device().memory_live;
}

size_t live_device_blocks() {
  const std::scoped_lock lock(device().mutex);
  return device().memory.size();
}

Launches launches() {
  const std::scoped_lock lock(device().mutex);
  return device().launches;
}

void reset_launches() {
  const std::scoped_lock lock(device().mutex);
  device().launches = {};
}

std::string last_report() {
  const std::scoped_lock lock(device().mutex);
  return device().report;
}

void reset() {
  Device& d = device();
  const std::scoped_lock lock(d.mutex);
  drop_everything();
  for_each_stream([](CUstream_st& stream) { stream.capture.reset(); });
  d.random = Random(Device::default_seed);
  d.memory_total = Device::default_memory;
  d.pageable_copies = PageableCopies::either;
  d.pageable_access = false;
  d.nccl_patience_s = Device::default_nccl_patience_s;
  d.capture_limit = Device::no_capture_limit;
  d.sticky = last_error = report(cudaSuccess, {});
}

}  // namespace simt

using namespace simt;

const char* cudaGetErrorName(cudaError_t error) {
  const ErrorText* text = find_text(error);
  return text != nullptr ? text->name : "unrecognized error code";
}

// Adds the report, if there is one: a program that prints CUDA's text then says what went wrong.
const char* cudaGetErrorString(cudaError_t error) {
  thread_local std::string message;
  const ErrorText* text = find_text(error);
  if (text == nullptr) return "unrecognized error code";
  const std::scoped_lock lock(device().mutex);
  if (error != device().reported || device().report.empty()) return text->text;
  message = std::string(text->text) + ": " + device().report;
  return message.c_str();
}

cudaError_t cudaPeekAtLastError() {
  const std::scoped_lock lock(device().mutex);
  return device().sticky != cudaSuccess ? device().sticky : last_error;
}

cudaError_t cudaGetLastError() {
  const cudaError_t error = cudaPeekAtLastError();
  last_error = cudaSuccess;
  return error;
}

cudaError_t cudaGetDeviceCount(int* count) {
  return call([&] {
    *count = device_count();
    return cudaSuccess;
  });
}

cudaError_t cudaGetDevice(int* ordinal) {
  return call([&] {
    *ordinal = device_of_thread();
    return cudaSuccess;
  });
}

cudaError_t cudaSetDevice(int ordinal) {
  return call([&] {
    if (ordinal < 0 || ordinal >= device_count()) return cudaErrorInvalidDevice;
    chosen_device = ordinal;
    return cudaSuccess;
  });
}

// Two multiprocessors: grids sized by them stay small enough to run on a host.
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* prop, int ordinal) {
  return call([&] {
    if (ordinal < 0 || ordinal >= device_count()) return cudaErrorInvalidDevice;
    *prop = {};
    std::strcpy(prop->name, "SIMT runner (host)");
    prop->totalGlobalMem = device().memory_total;
    prop->sharedMemPerBlock = 48 << 10;
    prop->regsPerBlock = 65536;
    prop->warpSize = 32;
    prop->maxThreadsPerBlock = 1024;
    prop->maxThreadsDim[0] = prop->maxThreadsDim[1] = 1024;
    prop->maxThreadsDim[2] = 64;
    prop->maxGridSize[0] = 0x7fffffff;
    prop->maxGridSize[1] = prop->maxGridSize[2] = 65535;
    prop->totalConstMem = 65536;
    prop->major = 9;
    prop->multiProcessorCount = 2;
    prop->concurrentKernels = 1;
    prop->asyncEngineCount = 1;
    prop->unifiedAddressing = 1;
    prop->memoryBusWidth = 64;
    prop->l2CacheSize = 1 << 20;
    prop->maxThreadsPerMultiProcessor = 2048;
    prop->sharedMemPerMultiprocessor = 228 << 10;
    // Each process has a device of its own, unless its environment says which.
    const char* const address = std::getenv("SIMT_DEVICE");
    prop->pageableMemoryAccess = device().pageable_access;
    prop->pciDomainID = address != nullptr ? std::atoi(address) : getpid();
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attr, int ordinal) {
  cudaDeviceProp prop;
  if (const cudaError_t error = cudaGetDeviceProperties(&prop, ordinal)) return error;
  switch (attr) {
    case cudaDevAttrMaxThreadsPerBlock: *value = prop.maxThreadsPerBlock; break;
    case cudaDevAttrMaxBlockDimX: *value = prop.maxThreadsDim[0]; break;
    case cudaDevAttrMaxBlockDimY: *value = prop.maxThreadsDim[1]; break;
    case cudaDevAttrMaxBlockDimZ: *value = prop.maxThreadsDim[2]; break;
    case cudaDevAttrMaxGridDimX: *value = prop.maxGridSize[0]; break;
    case cudaDevAttrMaxGridDimY: *value = prop.maxGridSize[1]; break;
    case cudaDevAttrMaxGridDimZ: *value = prop.maxGridSize[2]; break;
    case cudaDevAttrMaxSharedMemoryPerBlock: *value = prop.sharedMemPerBlock; break;
    case cudaDevAttrWarpSize: *value = prop.warpSize; break;
    case cudaDevAttrMultiProcessorCount: *value = prop.multiProcessorCount; break;
    case cudaDevAttrConcurrentKernels: *value = prop.concurrentKernels; break;
    case cudaDevAttrGlobalMemoryBusWidth: *value = prop.memoryBusWidth; break;
    case cudaDevAttrL2CacheSize: *value = prop.l2CacheSize; break;
    case cudaDevAttrMaxThreadsPerMultiProcessor: *value = prop.maxThreadsPerMultiProcessor; break;
    case cudaDevAttrComputeCapabilityMajor: *value = prop.major; break;
    case cudaDevAttrComputeCapabilityMinor: *value = prop.minor; break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      *value = prop.sharedMemPerMultiprocessor;
      break;
    case cudaDevAttrPageableMemoryAccess: *value = prop.pageableMemoryAccess; break;
    default: return remember(cudaErrorInvalidValue);
  }
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) { return cudaDriverGetVersion(version); }

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attr, const void* func) {
  return call([&] {
    if (func == nullptr) return cudaErrorInvalidValue;
    *attr = {};
    attr->maxThreadsPerBlock = launch_bounds(func);
    return cudaSuccess;
  });
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* func,
                                                          int block_size, size_t) {
  return call([&] {
    if (func == nullptr || block_size < 1) return cudaErrorInvalidValue;
    *blocks = unsigned(block_size) > launch_bounds(func) ? 0 : 2048 / block_size;
    return cudaSuccess;
  });
}
