#include "kernels/step/round_copies.h"

#include "core/inside.h"
#include "kernels/backend.h"

namespace accrue {
namespace cpu {

void round_copies(View copies, View values) {
  dispatch_floating(copies.dtype, [&]<class T>() {
    T* out = copies.as<T>();
    const auto* in = values.as<const Wide<T>>();
    parallel_each(values.numel(), 1, [&](int64_t i) { out[i] = T(in[i]); });
  });
}

}  // namespace cpu

namespace cuda {
decltype(cpu::round_copies) round_copies;
}  // namespace cuda

void round_copies(const Parameters& parameters) {
  const auto round = [](const Tensor& copies, const Tensor& values) {
    if (copies.defined())
      launch<cpu::round_copies, cuda::round_copies>(copies.device(), copies.view(), values.view());
  };
  parameters.drop_packed();
  round(parameters.copies(), parameters.values());
  round(parameters.fixed_copies(), parameters.fixed_values());
}

}  // namespace accrue
