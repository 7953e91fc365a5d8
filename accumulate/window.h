#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "accumulate/accumulator.h"
#include "accumulate/exchange.h"
#include "accumulate/module_buffers.h"
#include "accumulate/step_reports.h"
#include "accumulate/weighted_loss.h"
#include "accumulate/window_options.h"
#include "core/replay.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"

namespace accrue {

// A window of micro-batches that steps once with all its samples or leaves no trace. It owns every
// counter: micro-batch, optimizer step, schedule. Evaluation never touches it.
//
//   for each micro-batch i of the window:  window.backward(loss_i, w_i)   loss_i a mean over w_i
//   window.step()
//
// These calls take the same step as one batch of all the window's samples:
//   gradient = sum_i w_i * dloss_i / W        W = sum_i w_i.
// Backward starts from loss_scale * w_i / N, the backward kernels add to the gradients, and the
// step multiplies once by N / W / loss_scale * clip. So W need not be known before. A short last
// window is exact, and so are losses that are means over some of the pixels. A micro-batch of
// weight 0 adds nothing, and a window of weight 0 is skipped.
//
// Several ranks (WindowOptions::ranks) may share the window. Each calls backward() for its own
// micro-batches, perhaps none, with the same N. step() adds up the ranks' sums, losses and counts
// before it decides. So either all ranks take the same step, or none does. Module buffers become
// the ranks' mean, weighted by their samples. Strategy moments adds up the moments, which only the
// first rank has decayed. With step_in_backward each rank has at most one micro-batch of a window,
// and each gradient is added up over the ranks as soon as it is complete.
//
// Each rank's optimizers may own only its shard of the parameters (ZeRO's stage 1; Rajbhandari et
// al. 2020, arXiv 1910.02054). Then a rank receives the sums of its shard, steps and averages it,
// and sends the new weights to all. The traffic and the bits are the same.
//
// Losses, norms, step counts and the decisions based on them stay on the device, and nothing in a
// window waits for it. step() waits, because it returns what the step did; enqueue_step() does not,
// and reports() returns the outcomes as they arrive.
//
// Load weights before making the window, because it remembers the module buffers that abandon()
// restores. The optimizer must live as long as the window; Error if it is gone. If a backward()
// outside the window has left a gradient in the parameters, it would be added to the window's: the
// window throws Error until you call zero_grad().
//
// Networks with separate losses, such as a GAN's two, have a window each (train/game.h).
class Window {
 public:
  // Throws Error for options out of range, and for options that the strategy does not allow:
  // separate and fused need gradients in an arena, the others need them on demand and without
  // clipping; moments needs Adam, which owns all parameters.
  Window(Optimizer& optimizer, Schedule schedule, const WindowOptions& options);
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  // Says that this window will have fewer samples than N. Strategy moments must know before the
  // first micro-batch, because gradients that are already in the moments cannot be rescaled. The
  // others need not know.
  void expect(int64_t samples);
  // Says that the next micro-batch is this rank's last of the window. With Overlap::on, its
  // backward then adds up completed gradients over the ranks while it runs, and the window can no
  // longer be abandoned. Not every rank needs to call this.
  void expect_last() { last_is_next_ = true; }

  // Adds the gradient of one micro-batch. Call it once for each; if there are several losses, pass
  // their sum. `loss` is a mean over the things that `weight` counts; a plain number counts
  // samples. Throws Error when the window would exceed N samples. Strategy moments throws Error if
  // the weight counts anything but samples, because it must know each micro-batch's share
  // beforehand. If this throws anything (out of memory, bad input), call abandon() before going on.
  void backward(const Loss& loss, const Weight& weight) { backward({loss, weight}); }
  void backward(detail::WeightedLoss weighted);
  // Rehearses this backward (core/autograd.h), and changes nothing in the window.
  void rehearse(detail::WeightedLoss weighted) const;

  // Runs a micro-step. `work` is a forward that reads its input from the same tensors every time
  // and ends in one backward(loss, weight) on this window. On cuda it is replayed as a graph, with
  // the same weight unless that is on the device. `variant` distinguishes micro-steps that do
  // different work for the same number of samples; the graphs of earlier variants are forgotten.
  void micro_step(int64_t samples, int64_t variant, const std::function<void()>& work);
  // True if micro_step() may replay its work. Otherwise it just calls `work`.
  bool replays() const { return micro_steps_.records(); }

  // Steps and starts the next window. A window with a non-finite loss or gradient is abandoned
  // instead, and the report says so. Throws Error for a window that is empty (on all ranks, if
  // there are several).
  StepReport step();

  // Like step(), but does not wait for the device unless the device is max_windows_in_flight
  // behind.
  void enqueue_step();
  // Steps several windows over the same micro-batches together: if one is skipped, all are. Throws
  // Error for windows on several devices, and for a strategy that cannot take a window back.
  static void enqueue_together(const std::vector<Window*>& windows);
  // For networks that other windows' forwards also run (train/game.h). settle_buffers_with()
  // averages this window's module buffers over the ranks that share the other window, and restores
  // them if the other window's step was skipped. keep_buffers_with() restores them if the other
  // window's last micro-batch was dropped.
  void settle_buffers_with(const Window& other);
  void keep_buffers_with(const Window& other);
  // Call this after changing module buffers before a window's first micro-batch: they return to
  // these values if that micro-batch is dropped.
  void keep_buffers();
  using Wait = detail::StepReports::Wait;
  // Returns the reports of enqueued steps that have arrived, oldest first; with Wait::yes all of
  // them.
  std::vector<StepReport> reports(Wait wait = Wait::no) { return reports_.take(wait); }

  // Forgets this window: gradients are fresh again, and module buffers (BatchNorm statistics)
  // return to their values after the last step. Weights, moments and counters were not touched.
  // Throws Error if the strategy has touched them: with moments after the first micro-batch, with
  // step_in_backward from the start of backward on, after expect_last() from the start of the last
  // backward on.
  void abandon();

  // True if the strategy lets a window be taken back. Strategies that put gradients into the
  // moments or the weights cannot.
  bool can_abandon() const { return accumulator_->sum().defined(); }

  // All state that is carried into the next window, beside the parameters and module buffers: steps
  // taken, schedule and the optimizer's state ("optimizer.m"). Throws Error within a window, or
  // while reports() has not returned the outcome of a step.
  StateDict state_dict();
  // Call this after overwriting that state, parameters or module buffers.
  void restored();

  // The gradients of the last step, parameter by parameter: `scale * sum`. After a skipped step
  // they are the values that backward computed, finite or not. Waits for the device. Call this
  // between that step and the next window, whose backward overwrites them. Throws Error for a
  // strategy that drops gradients, and for optimizers that own a shard.
  struct Gradient {
    std::string name;
    Tensor sum;
    double scale;
  };
  std::vector<Gradient> last_gradients() const;

  // Exchanges the weights and their averages. Call it before and after evaluating or saving the
  // averages, on all ranks. Throws Error without an ema_decay, or before the first step.
  void exchange_averages();

  // The counters on the device (WindowState, decision.h), for other kernels to read. Between two
  // windows they hold the counters of the last step.
  detail::View state() const { return decision_.state.view(); }
  const WindowOptions& options() const { return options_; }
  const Parameters& parameters() const { return accumulator_->parameters(); }
  int64_t micro_batches() const { return counts_.micro_batches; }
  int64_t samples() const { return counts_.samples; }
  // Optimizer steps taken, assuming that no unreported step was skipped.
  int64_t steps() const { return reports_.taken() + int64_t(reports_.in_flight()); }
  double lr() const { return schedule_.lr(steps()); }
  Schedule& schedule() { return schedule_; }

 private:
  // The key of recorded work: the caller's variant, the number of samples, whether backward writes
  // or adds, and the divisor of weights.
  struct MicroStep {
    int64_t variant, samples;
    bool writes;
    int64_t divisor;
    auto operator<=>(const MicroStep&) const = default;
  };
  // A step is recorded whole, or in two parts if other windows' decisions come between them.
  enum class Part { whole, decide, apply };

  void check_usable() const;
  void add_terms_of(const detail::WeightedLoss& weighted);
  void tell_device();
  void decide_before_backward();
  void decide();
  void prepare_step();
  void run_step(Part part);
  void finish_step();
  void start_next();

  Optimizer& optimizer_;
  const std::weak_ptr<const void> optimizer_lives_;
  Schedule schedule_;
  const WindowOptions options_;
  const Device device_;
  const detail::StepDecision decision_;
  const std::unique_ptr<detail::Accumulator> accumulator_;
  const std::unique_ptr<detail::Exchange> exchange_;
  Tensor average_;  // of the weights that the optimizer owns; undefined unless requested
  detail::ModuleBuffers buffers_;
  detail::Replays<MicroStep> micro_steps_;
  detail::Replays<std::pair<Part, detail::Accumulator::Progress>> steps_;
  std::map<MicroStep, detail::Accumulator::Progress> progress_after_;
  detail::StepReports reports_;
  detail::WindowCounts counts_;  // of this window in this process; from prepare_step() on, in all
                                 // processes
  detail::WindowCounts decided_by_;  // of all processes, if the decision precedes backward
  double kept_samples_ = 0;          // in this process, in the last window
  bool last_is_next_ = false, is_planned_ = false;
};

}  // namespace accrue
