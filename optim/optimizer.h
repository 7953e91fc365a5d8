#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/parameters.h"
#include "kernels/step/optimizer_step.h"
#include "optim/state_dict.h"

namespace accrue {

namespace detail {

// The elements of a flat arena that an optimizer owns; by default all.
using Owned = std::optional<Parameters::Range>;

}  // namespace detail

// Updates the values of one Parameters arena from flat gradients, with one fused kernel for a whole
// range. It keeps the arena alive. If several ranks share the work, each optimizer owns some
// elements of the arena: it keeps state for them and updates only them.
class Optimizer {
 public:
  explicit Optimizer(const Parameters& parameters, detail::Owned owned = {});
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // Call begin_step() once for each step, then step() for each range of the parameters. Both use
  // the learning rate and the scale of the window's outcome (kernels/step/step_outcome.h), and do
  // nothing if the outcome skips the window. `range` lies within owned(), and `gradient` is its
  // gradient.
  virtual void begin_step(const detail::View& outcome);
  void step(Parameters::Range range, const detail::View& gradient, const detail::View& outcome);

  // True if the moments can serve as the accumulator (kernels/step/optimizer_step.h, adam_fold()).
  // Then fold() adds each micro-batch's gradient to the moments, and step_folded() needs no
  // gradient.
  virtual bool folds() const { return false; }
  void fold(Parameters::Range range, const detail::View& gradient,
            const detail::FoldScalars& scalars);
  void step_folded(Parameters::Range range, const detail::View& outcome);

  // Exempts the weights in these ranges from weight decay. The ranges ascend and do not touch. By
  // default all weights decay.
  void exempt_from_decay(std::vector<Parameters::Range> ranges) { exempt_ = std::move(ranges); }

  const Parameters& parameters() const { return parameters_; }
  // Expires with the optimizer, so that others can tell whether it still exists.
  std::weak_ptr<const void> lifetime() const { return life_; }
  Parameters::Range owned() const { return owned_; }
  bool owns_all() const { return owned_.end - owned_.begin == parameters_.values().numel(); }
  // The number of optimizer steps taken, Adam's t. Waits for the device.
  int64_t steps() const { return detail::is_meta(steps_.device()) ? 0 : int64_t(steps_.item()); }
  // The flat state of the owned elements by name ("m", "v", "momentum"), for tests and checkpoints.
  virtual std::vector<std::pair<std::string, Tensor>> state() const = 0;
  // Adds state() and the count of steps, with `prefix` before each name.
  void add_state(StateDict& dict, const std::string& prefix) const;

 protected:
  enum class Decays { no, yes };
  // step(), fold() and step_folded() for a range in which all or no weights decay.
  virtual void step_part(Parameters::Range range, const detail::View& gradient,
                         const detail::View& outcome, Decays decays) = 0;
  virtual void fold_part(Parameters::Range range, const detail::View& gradient,
                         const detail::FoldScalars& scalars, Decays decays);
  virtual void step_folded_part(Parameters::Range range, const detail::View& outcome,
                                Decays decays);

  // Returns zeros for the owned elements; `name` labels their memory.
  Tensor new_state(std::string_view name) const;
  // The part of `state`, which new_state() has made, for a range of the parameters.
  detail::View state_of(const Tensor& state, Parameters::Range range) const;

  const Parameters parameters_;
  Parameters::Range owned_;
  std::vector<Parameters::Range> exempt_;
  Tensor progress_;  // f64 [3]: the number of steps, then two numbers from adam_begin()
  Tensor steps_;     // the first element of progress_

 private:
  template <class Body>
  void for_each_part(Parameters::Range range, const Body& body) const;

  const std::shared_ptr<const void> life_ = std::make_shared<char>();
};

// kernels/step/optimizer_step.h gives the formulas.
struct AdamOptions {
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
};
struct SgdOptions {
  double momentum = 0, weight_decay = 0;
  bool nesterov = false;
};
struct LionOptions {
  double beta1 = 0.9, beta2 = 0.99, weight_decay = 0;
};

namespace detail {

// The beta2 with which v loses half of its old value after half_life_samples samples, whatever the
// effective batch: 2^(-effective_batch_size / half_life_samples) (Marek et al., arXiv 2507.07101,
// section 3). Throws Error unless half_life_samples is positive.
double beta2_of_half_life(double half_life_samples, int64_t effective_batch_size);

}  // namespace detail

// The Adam optimizer. All factories throw Error for hyper-parameters out of range, and OutOfMemory.
std::unique_ptr<Optimizer> adam(const Parameters& parameters, const AdamOptions& options = {},
                                detail::Owned owned = {});
// Adam with weight decay decoupled from the gradient; PyTorch's default for the decay is 0.01.
std::unique_ptr<Optimizer> adamw(const Parameters& parameters,
                                 const AdamOptions& options = {.weight_decay = 0.01},
                                 detail::Owned owned = {});
std::unique_ptr<Optimizer> sgd(const Parameters& parameters, const SgdOptions& options = {},
                               detail::Owned owned = {});
// The Lion optimizer. Its updates are larger than Adam's, so it needs about a third to a tenth of
// Adam's lr (1e-4 is usual) and three to ten times as much weight decay.
std::unique_ptr<Optimizer> lion(const Parameters& parameters, const LionOptions& options = {},
                                detail::Owned owned = {});

}  // namespace accrue
