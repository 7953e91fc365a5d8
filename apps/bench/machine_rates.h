#pragma once

#include "core/tensor.h"

namespace accrue::app {

// The rates that a machine reaches where nothing else holds it up.
struct MachineRates {
  double flops_per_s = 0;  // of a square product of GemmProbe::size(), of gemm_dtype
  double bytes_per_s = 0;  // read and written by a copy of copy_bytes, which no cache holds
  DType gemm_dtype = DType::f32;
  static constexpr int64_t copy_bytes = 64 << 20;
};

// A square product that reaches the machine's rate: large enough, but on the cpu so small that rows
// a power of two apart, which compete for the same lines of a cache, do not slow it down.
class GemmProbe {
 public:
  static int64_t size(Device device) { return device == Device::cuda ? 1024 : 512; }
  explicit GemmProbe(Device device, DType dtype = DType::f32);
  // Of one product, now.
  double flops_per_s() const;

 private:
  Tensor a_;
};

// Medians of three measurements after one to warm up, with no limit on memory. Throw OutOfMemory.
double copy_bytes_per_s(Device device);
MachineRates measure_rates(Device device, DType dtype);

}  // namespace accrue::app
