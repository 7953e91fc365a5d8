// One epoch of 240 samples in windows of 96, 32 samples in memory at a time: by hand, with
// backward() alone, and with Window. Prints the norm of the gradient of each window.
//
// After zero_grad() the first backward writes the gradient and the later ones add to it. A
// micro-batch's loss is the mean of its n samples. With the seed n / (samples of the window), the
// gradients add up to the gradient of the whole window. The last window has 48 samples, 32 and 16.
// There, dividing by K = 3, which is right for a full window, makes the step too short, and each of
// the 16 samples counts as much as two others.

#include <accrue/accrue.h>

#include <algorithm>
#include <cmath>

using namespace accrue;

namespace {

double norm(const Tensor& x) {
  double sum = 0;
  for (const float value : x.span<float>()) sum += double(value) * value;
  return std::sqrt(sum);
}

}  // namespace

int main() {
  constexpr int64_t N = 96, micro_batch_size = 32, K = N / micro_batch_size;
  const Dataset data = make_digits(Split::train, {.train_size = 240});
  const auto model = make_model({.kind = ModelKind::mlp_small});
  Parameters parameters = place(*model, DType::f32, Device::cpu, /*seed=*/1);
  const auto optimizer = sgd(parameters, {.momentum = 0.9});
  Window window(*optimizer, ScheduleOptions{.base = 0.01}, {.effective_batch_size = N});

  // Calls use(loss, n) for each micro-batch of samples [begin, end).
  const auto for_each_loss = [&](int64_t begin, int64_t end, int64_t size, const auto& use) {
    for (int64_t i = begin; i < end; i += size) {
      const Samples micro = gather(data, i, std::min(i + size, end));
      use(cross_entropy((*model)(micro["images"]), micro["labels"]), micro.size());
    }
  };

  fmt::print("samples   one batch   n/samples   1/K         Window\n");
  for (int64_t begin = 0; begin < data.size(); begin += N) {
    const int64_t end = std::min(begin + N, data.size()), samples = end - begin;

    parameters.zero_grad();
    for_each_loss(begin, end, N, [](const Tensor& loss, int64_t) { backward(loss); });
    const double one_batch = norm(parameters.gradients());

    parameters.zero_grad();
    for_each_loss(begin, end, micro_batch_size, [&](const Tensor& loss, int64_t n) {
      backward(loss, double(n) / double(samples));
    });
    const double by_share = norm(parameters.gradients());

    parameters.zero_grad();
    for_each_loss(begin, end, micro_batch_size,
                  [](const Tensor& loss, int64_t) { backward(loss, 1.0 / K); });
    const double by_count = norm(parameters.gradients());

    parameters.zero_grad();
    for_each_loss(begin, end, micro_batch_size,
                  [&](const Tensor& loss, int64_t n) { window.backward(loss, n); });
    const StepReport step = window.step();

    fmt::print("{:7}   {:<9.6f}   {:<9.6f}   {:<9.6f}   {:<9.6f}\n", samples, one_batch, by_share,
               by_count, step.grad_norm);
  }
}
