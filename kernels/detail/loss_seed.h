#pragma once

#include "kernels/backend.h"

namespace accrue {

// A LossSeed as kernels of a loss in T read it, on both devices.
template <class T>
class Seed {
 public:
  explicit Seed(const LossSeed& seed)
      : dloss_(seed.dloss.data ? seed.dloss.as<const T>() : nullptr),
        scale_(seed.scale.data ? seed.scale.as<const double>() : nullptr),
        share_(seed.share),
        loss_(seed.sum.data ? seed.loss.as<const T>() : nullptr),
        sum_(seed.sum.data ? seed.sum.as<double>() : nullptr),
        samples_(seed.samples),
        beta_(seed.beta) {}

  HOST_DEVICE T dloss() const { return dloss_ ? *dloss_ : static_cast<T>(*scale_ * share_); }
  // For one thread to do, once.
  HOST_DEVICE void add_loss() const {
    if (sum_) *sum_ = blend(double(*loss_) * samples_, beta_, *sum_);
  }

 private:
  const T* dloss_;
  const double* scale_;
  double share_;
  const T* loss_;
  double* sum_;
  double samples_;
  float beta_;
};

}  // namespace accrue
