// Checks scale_features against central differences in double, and checks that a second backward
// adds to the first gradient. Runs on the CPU, and on a GPU if there is one.

#include <accrue/accrue.h>
#include <accrue/core/cuda.h>
#include <accrue/core/random.h>

#include <cmath>

#include "scale_features.h"

using namespace accrue;

namespace {

Tensor random_tensor(const Shape& shape, uint64_t seed) {
  Tensor x = Tensor::empty(shape, DType::f64, Device::cpu);
  Init::normal(1).fill(x.span<double>(), seed, /*stream=*/0);
  return x;
}

// The largest difference between two estimates of twice the gradient with respect to x: the sum of
// two backward passes, and twice the central difference. The loss is quadratic, so the central
// difference is exact except for rounding of the loss, about 1e-16, divided by the step 1e-4.
template <class Loss>
double largest_error(const Tensor& x, const Loss& loss) {
  zero_grad(x);
  backward(loss());
  backward(loss());
  const Tensor twice = grad(x).to(Device::cpu);

  const Tensor values = x.to(Device::cpu);
  const auto loss_with = [&](int64_t i, double value) {
    values.span<double>()[size_t(i)] = value;
    x.copy_from(values);
    return loss().item();
  };
  constexpr double h = 1e-4;
  double largest = 0;
  for (int64_t i = 0; i < x.numel(); ++i) {
    const double at = values.span<double>()[size_t(i)];
    const double difference = (loss_with(i, at + h) - loss_with(i, at - h)) / h;
    loss_with(i, at);
    largest = std::max(largest, std::abs(twice.span<double>()[size_t(i)] - difference));
  }
  return largest;
}

bool check_on(Device device) {
  const Tensor x = require_grad(random_tensor({5, 7}, 1).to(device));
  const Tensor a = require_grad(random_tensor({7}, 2).to(device));
  const Tensor target = random_tensor({5, 7}, 3).to(device);
  const auto loss = [&] { return mse_loss(custom::scale_features(x, a), target); };
  const double error = std::max(largest_error(x, loss), largest_error(a, loss));
  const bool agrees = error < 1e-10;
  fmt::print("{}: gradients of x and a are off by {:.1e} at most: {}\n",
             device == Device::cpu ? "cpu" : "cuda", error,
             agrees ? "right" : "WRONG, expected less than 1e-10");
  return agrees;
}

}  // namespace

int main() {
  bool agrees = check_on(Device::cpu);
  if (cuda::unavailable_reason().empty()) agrees &= check_on(Device::cuda);
  return agrees ? 0 : 1;
}
