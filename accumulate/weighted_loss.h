#pragma once

#include <vector>

#include "core/autograd.h"

namespace accrue {

// A loss, and at most eight further terms for the report, such as the summands of the loss. All are
// scalars that are means of the same weight.
struct Loss {
  Tensor value;
  std::vector<Tensor> terms{};

  Loss(Tensor loss) : value(std::move(loss)) {}
  Loss(Tensor loss, std::vector<Tensor> beside)
      : value(std::move(loss)), terms(std::move(beside)) {}
};

// How much a micro-batch counts in its window: the number of things that its loss is the mean of.
// By default that is the number of samples. `counted` may give the number of pixels or tokens
// instead, in a unit that is the same in the whole window. Choose the unit such that a whole sample
// is about 1: then 16-bit gradients have the size that the loss scale is made for. `on_device` is a
// tensor f64 [] for a number that only the device knows.
struct Weight {
  int64_t samples;
  double counted;
  Tensor on_device{};  // if defined, in place of `counted`

  Weight(int64_t samples) : Weight(samples, double(samples)) {}
  Weight(int64_t samples, double counted) : samples(samples), counted(counted) {}
  Weight(int64_t samples, Tensor counted) : Weight(samples) { on_device = std::move(counted); }

  // True if it counts anything but samples.
  bool counts_parts() const { return on_device.defined() || counted != double(samples); }
  detail::LossWeight of_loss() const {
    return {counted, on_device.defined() ? on_device.view() : detail::View{}};
  }
};

namespace detail {

// A micro-batch as the window gives it to its strategy. The window fills in is_first and
// expected_samples.
struct WeightedLoss {
  Loss loss;
  Weight weight;
  bool is_first = true;          // of the window, in this process
  int64_t expected_samples = 0;  // of the window
};

// Throws Error for a number that is no weight, or a tensor that is not a scalar on this device.
void check_weight(const Weight& weight, Device device);
// The terms beside a loss. Throws Error unless they are scalars on this device.
std::vector<View> terms_of(const Loss& loss, Device device);

}  // namespace detail

}  // namespace accrue
