#include "kernels/detail/constants.h"

#include <algorithm>

#include "core/inside.h"

namespace accrue {
namespace cpu {

void write_constants(View y, const Constants& piece) {
  std::copy_n(piece.values.begin(), y.numel(), y.as<double>());
}

}  // namespace cpu

namespace cuda {
decltype(cpu::write_constants) write_constants;
}  // namespace cuda

Tensor constants_on(Device device, std::span<const double> values) {
  const auto n = static_cast<int64_t>(values.size());
  Tensor y = Tensor::empty({n}, DType::f64, device);
  for (int64_t begin = 0; begin < n; begin += Constants::most) {
    const int64_t end = std::min(n, begin + Constants::most);
    Constants piece{};
    std::copy(values.begin() + begin, values.begin() + end, piece.values.begin());
    launch<cpu::write_constants, cuda::write_constants>(device, y.view().part(begin, end), piece);
  }
  return y;
}

}  // namespace accrue
