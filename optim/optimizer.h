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
  explicit Optimizer(Parameters& parameters);
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // Steps the values in `ranges` with gradients (flat, [P]), by the learning rate and the scale
  // that are in the window's state (kernels/window_state.h); does nothing if that says skipped.
  void step(const Tensor& gradients, std::span<const Parameters::Range> ranges, const View& state);

  Parameters& parameters() const { return parameters_; }
  // Optimizer steps taken: Adam's t. Waits for the device.
  int64_t steps() const { return is_meta(steps_.device()) ? 0 : int64_t(steps_.item()); }
  // The flat state by name ("m", "v", "momentum"), for tests and checkpoints.
  virtual std::vector<std::pair<std::string, Tensor>> state() const = 0;

 protected:
  // One range of the flat views; `steps` f64 [1] counts this step.
  virtual void step_range(Parameters::Range range, const Tensor& gradients, const View& steps,
                          const View& state) = 0;
  Tensor new_state() const;

 private:
  Parameters& parameters_;
  Tensor steps_;
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
