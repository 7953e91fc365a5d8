#pragma once

#include <vector>

#include "core/autograd.h"

namespace accrue {

// A loss, and at most eight terms beside it for the report, such as those that it is a sum of:
// scalars that are means of the same weight.
struct Loss {
  Tensor value;
  std::vector<Tensor> terms{};

  Loss(Tensor loss) : value(std::move(loss)) {}
  Loss(Tensor loss, std::vector<Tensor> beside)
      : value(std::move(loss)), terms(std::move(beside)) {}
};

// How much a micro-batch counts in its window: by the number of things that its loss is a mean
// over. These are its samples, unless `counted` says how many pixels or tokens they are, in a unit
// that is the same in the whole window. Where a whole sample is about 1, gradients in 16 bits have
// the size that the loss scale is made for. A number that the device alone knows is a tensor f64 []
// there.
struct Weight {
  int64_t samples;
  double counted;
  Tensor on_device{};  // if defined, in place of `counted`

  Weight(int64_t samples) : Weight(samples, double(samples)) {}
  Weight(int64_t samples, double counted) : samples(samples), counted(counted) {}
  Weight(int64_t samples, Tensor counted) : Weight(samples) { on_device = std::move(counted); }

  // True if it counts anything else than samples.
  bool counts_parts() const { return on_device.defined() || counted != double(samples); }
  detail::LossWeight of_loss() const {
    return {counted, on_device.defined() ? on_device.view() : detail::View{}};
  }
};

namespace detail {

// A micro-batch as its window takes it in. The window itself says where it stands.
struct WeightedLoss {
  Loss loss;
  Weight weight;
  bool is_first = true;          // of the window, in this process
  int64_t expected_samples = 0;  // of the window
};

// Throws Error for a number that is no weight, or a tensor that is no scalar on this device.
void check_weight(const Weight& weight, Device device);
// The terms beside a loss. Throws Error unless they are scalars on this device.
std::vector<View> terms_of(const Loss& loss, Device device);

}  // namespace detail

}  // namespace accrue
