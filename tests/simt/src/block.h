#pragma once

#include <functional>
#include <stdexcept>
#include <string>

#include "cuda_runtime.h"
#include "random.h"

namespace simt {

// An error of work on the device. The stream's user learns of it at the next synchronisation.
struct Failure : std::runtime_error {
  Failure(cudaError_t code, const std::string& what) : std::runtime_error(what), code(code) {}
  cudaError_t code;
};

// A kernel as it was launched.
struct Launch {
  dim3 grid, block;
  const void* kernel;            // its address, for reports
  std::function<void()> thread;  // what one thread runs
};

// The most threads that a block may have by the kernel's __launch_bounds__; 0 if it states none.
unsigned launch_bounds(const void* kernel);

// Runs all blocks of the grid in random order. Throws Failure if the kernel breaks a rule of CUDA,
// and whatever a kernel thread throws.
void run_grid(const Launch& launch, Random& random);

}  // namespace simt
