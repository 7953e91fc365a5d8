#pragma once

#include <cuda_runtime.h>
#include <simt.h>

#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "tests/support/catch.h"

// A device as new for one test, and again for the next.
struct FreshDevice {
  FreshDevice() { simt::reset(); }
  ~FreshDevice() { simt::reset(); }
};

// An array in device memory.
template <class T>
class Array {
 public:
  explicit Array(size_t n) : n_(n) { REQUIRE(cudaMalloc(&data_, n * sizeof(T)) == cudaSuccess); }
  explicit Array(const std::vector<T>& values) : Array(values.size()) {
    REQUIRE(cudaMemcpy(data_, values.data(), n_ * sizeof(T), cudaMemcpyHostToDevice) ==
            cudaSuccess);
  }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  ~Array() {
    if (cudaFree(data_) == cudaSuccess) return;
    simt::reset();  // the test ended with a failed device
    cudaFree(data_);
  }

  T* data() { return data_; }
  size_t size() const { return n_; }
  std::vector<T> read() const {
    std::vector<T> values(n_);
    REQUIRE(cudaMemcpy(values.data(), data_, n_ * sizeof(T), cudaMemcpyDeviceToHost) ==
            cudaSuccess);
    return values;
  }

 private:
  T* data_ = nullptr;
  size_t n_;
};

// Launches without waiting.
template <class... Expected, class... Actual>
cudaError_t launch(dim3 grid, dim3 block, void (*kernel)(Expected...), Actual... args) {
  const cudaLaunchConfig_t config{grid, block, 0, nullptr, nullptr, 0};
  return cudaLaunchKernelEx(&config, kernel, args...);
}

// Returns what `body` writes to stderr in a child process that a sanitizer ends; empty if the child
// survives.
std::string report_of_death(const std::function<void()>& body);

#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool address_sanitizer = true;
#else
inline constexpr bool address_sanitizer = false;
#endif
