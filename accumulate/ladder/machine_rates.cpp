#include "accumulate/ladder/machine_rates.h"

#include <chrono>

#include "accumulate/ladder/tensor_ops.h"
#include "core/cuda.h"
#include "core/limit_scope.h"
#include "core/median.h"
#include "kernels/linear.h"

namespace accrue::ladder {
namespace {

double seconds_of(Device device, auto&& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  if (device == Device::cuda) accrue::cuda::synchronize();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median_of_three(auto&& measure) {
  measure();
  return median({measure(), measure(), measure()});
}

}  // namespace

GemmProbe::GemmProbe(Device device, DType dtype)
    : a_(Tensor::full({MachineRates::gemm_size(device), MachineRates::gemm_size(device)}, 1, dtype,
                      device, Category::workspace)) {}

double GemmProbe::flops_per_s() const {
  const auto n = static_cast<double>(a_.size(0));
  return 2 * n * n * n / seconds_of(a_.device(), [&] { matmul(a_, a_); });
}

double copy_bytes_per_s(Device device) {
  const LimitScope no_limit(device, std::nullopt);
  const Shape shape{MachineRates::copy_bytes / int64_t{sizeof(float)}};
  const auto make = [&] { return Tensor::full(shape, 0, DType::f32, device, Category::workspace); };
  const Tensor x = make(), y = make();
  return median_of_three([&] {
    return 2.0 * MachineRates::copy_bytes / seconds_of(device, [&] {
             if (device == Device::cpu) copy(y.view(), x.view());
             else y.copy_from(x);
           });
  });
}

MachineRates measure_rates(Device device, DType dtype) {
  const LimitScope no_limit(device, std::nullopt);
  const GemmProbe probe(device, dtype);
  const double flops_per_s = median_of_three([&] { return probe.flops_per_s(); });
  return {flops_per_s, copy_bytes_per_s(device), dtype};
}

}  // namespace accrue::ladder
