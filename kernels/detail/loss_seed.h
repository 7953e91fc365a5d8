#pragma once

#include "core/inside.h"
#include "kernels/backend.h"

namespace accrue {

// A LossWeight in the form that kernels read, on both devices.
class DeviceWeight {
 public:
  explicit DeviceWeight(const LossWeight& weight)
      : on_device_(weight.on_device.data ? weight.on_device.as<const double>() : nullptr),
        on_host_(weight.on_host) {}

  HOST_DEVICE double value() const { return on_device_ ? *on_device_ : on_host_; }

 private:
  const double* on_device_;
  double on_host_;
};

// A LossSeed in the form that kernels of a loss in T read, on both devices.
template <class T>
class Seed {
 public:
  explicit Seed(const LossSeed& seed)
      : dloss_(seed.dloss.data ? seed.dloss.as<const T>() : nullptr),
        scale_(seed.scale.data ? seed.scale.as<const double>() : nullptr),
        weight_(seed.weight),
        of_(seed.of),
        loss_(seed.loss_sum.data ? seed.loss.as<const T>() : nullptr),
        loss_sum_(seed.loss_sum.data ? seed.loss_sum.as<double>() : nullptr),
        weight_sum_(seed.loss_sum.data ? seed.weight_sum.as<double>() : nullptr),
        beta_(seed.beta) {}

  HOST_DEVICE T dloss() const {
    return dloss_ ? *dloss_ : static_cast<T>(*scale_ * (weight_.value() / of_));
  }
  // Exactly one thread must call this, once.
  HOST_DEVICE void add_loss() const {
    if (!loss_sum_) return;
    const double weight = weight_.value();
    *loss_sum_ = blend(double(*loss_) * weight, beta_, *loss_sum_);
    *weight_sum_ = blend(weight, beta_, *weight_sum_);
  }

 private:
  const T* dloss_;
  const double* scale_;
  DeviceWeight weight_;
  double of_;
  const T* loss_;
  double *loss_sum_, *weight_sum_;
  float beta_;
};

}  // namespace accrue
