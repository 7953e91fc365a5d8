#pragma once

#include "core/inside.h"
#include "core/profile.h"
#include "core/tensor.h"

namespace accrue::ladder {

// A product of square matrices of size MachineRates::gemm_size().
class GemmProbe {
 public:
  explicit GemmProbe(Device device, DType dtype = DType::f32);
  // Measures the rate of one product.
  double flops_per_s() const;

 private:
  Tensor a_;
};

// Medians of three measurements after one warm-up, with no limit on memory. Throw OutOfMemory.
double copy_bytes_per_s(Device device);
MachineRates measure_rates(Device device, DType dtype);

}  // namespace accrue::ladder
