#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/parameters.h"

namespace accrue {

// Updates the values of one Parameters arena from flat gradients, fused over whole ranges.
class Optimizer {
 public:
  explicit Optimizer(Parameters& parameters) : parameters_(parameters) {}
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // Steps the values in `ranges` with grad_scale * gradients (flat, [P]).
  void step(const Tensor& gradients, std::span<const Parameters::Range> ranges, double lr,
            double grad_scale);

  Parameters& parameters() const { return parameters_; }
  // Optimizer steps taken: Adam's t.
  int64_t steps() const { return steps_; }
  // The flat state by name ("m", "v", "momentum"), for tests and checkpoints.
  virtual std::vector<std::pair<std::string, Tensor>> state() const = 0;

 protected:
  // One range of the flat views; `step` counts from 1.
  virtual void step_range(Parameters::Range range, const Tensor& gradients, double lr,
                          double grad_scale, int64_t step) = 0;
  Tensor new_state() const;

 private:
  Parameters& parameters_;
  int64_t steps_ = 0;
};

// kernels/optimizer_step.h gives the formulas.
struct AdamOptions {
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
};
struct SgdOptions {
  double momentum = 0, weight_decay = 0;
  bool nesterov = false;
};
// Factories throw Error for hyper-parameters out of range and OutOfMemory for their state.
std::unique_ptr<Optimizer> adam(Parameters& parameters, const AdamOptions& options = {});
// Weight decay decoupled from the gradient; PyTorch's default for it is 0.01.
std::unique_ptr<Optimizer> adamw(Parameters& parameters,
                                 const AdamOptions& options = {.weight_decay = 0.01});
std::unique_ptr<Optimizer> sgd(Parameters& parameters, const SgdOptions& options = {});

}  // namespace accrue
