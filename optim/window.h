#pragma once

#include <deque>
#include <functional>
#include <limits>
#include <unordered_map>
#include <vector>

#include "core/readback.h"
#include "core/replay.h"
#include "kernels/step/window_state.h"
#include "optim/optimizer.h"
#include "optim/ranks.h"
#include "optim/schedule.h"
#include "optim/window_options.h"

namespace accrue {

// A loss, and at most eight numbers beside it for the report, such as the terms that it is a sum
// of: scalars that are means of the same weight.
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
};

// The result of one optimizer step.
struct StepReport {
  int64_t step = 0;             // optimizer steps taken so far, this one included
  int64_t micro_batches = 0;    // in this window
  int64_t samples = 0;          // in this window: N_actual
  double weight = 0;            // of their losses together: W
  double loss = 0;              // mean by weight
  std::vector<double> terms{};  // likewise, of the numbers beside it
  double grad_norm = 0;         // of the mean gradient, before clipping; NaN if never whole
  double lr = 0;
  double noise_scale = std::numeric_limits<double>::quiet_NaN();  // in samples; NaN while unknown
  double loss_scale = 1;  // that the window was computed with
  bool overflow = false;  // the gradient was not finite, in the window or in what it dropped
  int64_t dropped_samples = 0;
  bool skipped = false;    // a non-finite gradient or loss, or no weight: nothing was changed
  bool no_weight = false;  // there was nothing to learn from: W is 0
};

// A window of micro-batches that steps once with all its samples or leaves no trace. It owns every
// counter: micro-batch, optimizer step, schedule. Evaluation never touches it.
//
//   for each micro-batch i of the window:  window.backward(loss_i, w_i)   loss_i a mean over w_i
//   window.step()
//
// takes the step of one batch of all the window's samples:
//   gradient = sum_i w_i * dloss_i / W        W = sum_i w_i
// It is computed in this way: backward's seed is loss_scale * w_i / N, the backward kernels
// themselves add up, and the step multiplies once by N / W / loss_scale * clip. So nobody needs to
// know W before, and a short last window is exact, as are losses that are means over some of the
// pixels. A micro-batch of weight 0 adds nothing, and a window of weight 0 is skipped.
//
// Several ranks (WindowOptions::ranks) share the window. Each calls backward() for its own
// micro-batches, of which there may be none, with the same N. step() adds up the ranks' sums,
// losses and counts before it decides anything by them. So all ranks take the same step, or none
// does. Module buffers become the ranks' mean, weighted by their samples. Strategy moments adds up
// the moments, which the first rank alone has decayed; with step_in_backward each rank has at most
// one micro-batch of a window, and each gradient is added up as soon as it is complete. If each
// rank's optimizers own its shard of the parameters (ZeRO's stage 1; Rajbhandari et al. 2020, arXiv
// 1910.02054), a rank gets the sums of this shard alone, steps it, keeps its average, and sends its
// new weights to all: the same traffic, and the same bits.
//
// Losses, norms, step counts and the decisions based on them stay on the device, and nothing in a
// window waits for it. step() waits, because it returns what the step did; enqueue_step() does not,
// and reports() has the outcomes as they arrive.
//
// Load weights before making the window, because it remembers the module buffers that abandon()
// restores.
//
// Several optimizers can share the window of one loss: each keeps its own parameters, all step
// together, and the clipping norm is over all of them. Networks with losses of their own, such as a
// GAN's two, have a window each (train/game.h).
class Window {
 public:
  // Throws Error for options out of range, without an optimizer, and for options that the strategy
  // does not allow: separate and fused need gradients in an arena, the others need them on demand
  // and without clipping; moments needs Adam, which owns all parameters.
  Window(std::vector<Optimizer*> optimizers, Schedule schedule, WindowOptions options);
  Window(Optimizer& optimizer, Schedule schedule, WindowOptions options)
      : Window(std::vector{&optimizer}, std::move(schedule), options) {}

  // Says that this window will have fewer samples than N. Strategy moments must know before the
  // first micro-batch, because folded gradients cannot be rescaled; the others need not know.
  void expect(int64_t samples);
  // Says that the next micro-batch is this rank's last of the window. With Overlap::on, what its
  // backward completes is then added up over the ranks while it goes on, and the window can no
  // longer be abandoned. Some ranks may say so and others not.
  void expect_last() { last_is_next_ = true; }

  // Adds the gradient of one micro-batch. Call it once for each; add several losses up before.
  // `loss` is a mean over what `weight` counts: a number means so many samples. Throws Error when
  // the window would exceed N samples, and with strategy moments for a weight of anything else than
  // samples, because what it folds must be a share of a weight that is known before. If this throws
  // anything (out of memory, bad input), call abandon() before going on.
  void backward(const Loss& loss, const Weight& weight);

  // Runs a micro-step: `work` is a forward that reads its input from the same tensors every time
  // and ends in one backward(loss, weight) on this window. On cuda it is replayed as a graph, with
  // the same weight unless that is on the device.
  // `variant` distinguishes micro-steps that are different work for the same number of samples; the
  // graphs of earlier variants are forgotten.
  void micro_step(int64_t samples, int64_t variant, const std::function<void()>& work);

  // Steps and starts the next window. A window with a non-finite loss or gradient is abandoned
  // instead, and the report says so. Throws Error for a window that is empty (on all ranks, if
  // there are several).
  StepReport step();

  // step() without waiting for the device, unless it is max_windows_in_flight behind.
  void enqueue_step();
  // Steps several windows over the same micro-batches together: if one is skipped, all are. Throws
  // Error for windows on several devices, and for a strategy that cannot take a window back.
  static void enqueue_together(const std::vector<Window*>& windows);
  // For networks that other windows' forwards also run (train/game.h): settle_buffers_with() brings
  // this window's module buffers back if the other window's step was skipped, and makes them the
  // mean over the ranks that share it; keep_buffers_with() brings them back if its last micro-batch
  // was dropped.
  void settle_buffers_with(const Window& other);
  void keep_buffers_with(const Window& other);
  // Call this after changing module buffers before a window's first micro-batch: if that is
  // dropped, they return to these values.
  void keep_buffers();
  enum class Wait { no, yes };
  // Returns the reports of enqueued steps that have arrived, oldest first; with Wait::yes all of
  // them.
  std::vector<StepReport> reports(Wait wait = Wait::no);

  // Forgets this window: gradients are fresh again, and module buffers (BatchNorm statistics) as
  // the last step left them. Weights, moments and counters were not touched. Throws Error if the
  // strategy has touched them: with moments after the first micro-batch, with step_in_backward from
  // the start of its backward on, with expect_last() from the start of the last one's on.
  void abandon();

  // True if the strategy lets a window be taken back. Strategies that put gradients into the
  // moments or the weights do not.
  bool can_abandon() const { return !drops_gradients(options_.strategy); }

  // All state that is carried into the next window, beside the parameters and module buffers: steps
  // taken, schedule and the optimizers' state ("optimizer.m"; of several "optimizer.0.m").
  // Throws Error within a window, or while reports() has not returned the outcome of a step.
  StateDict state_dict();
  // Call this after overwriting that state, parameters or module buffers.
  void restored();

  // The gradients of the last step, parameter by parameter: `scale * sum`. After a skipped step
  // they are as they came. Waits for the device. Call this between that step and the next window,
  // whose backward writes over them. Throws Error for a strategy that drops gradients, and for
  // optimizers that own a shard.
  struct Gradient {
    std::string name;
    Tensor sum;
    double scale;
  };
  std::vector<Gradient> last_gradients() const;

  // Exchanges the weights and their averages. Call it before and after evaluating or saving the
  // averages, on all ranks. Throws Error without an ema_decay, or before the first step.
  void exchange_averages();

  // y[0] = f(the loss of the last window that was not skipped), on the device, with y f32 or f64
  // [1] on this device. Before the first such window y stays as it is.
  void follow_loss(const Tensor& y, const StepFunction& f) const;

  // The parameters of all its optimizers.
  std::vector<const Parameters*> parameters() const;
  int64_t micro_batches() const { return micro_batches_; }
  int64_t samples() const { return samples_; }
  // Optimizer steps taken, assuming that none of those not reported yet was skipped.
  int64_t steps() const { return taken_ + int64_t(in_flight_.size()); }
  double lr() const { return schedule_.lr(steps()); }
  Schedule& schedule() { return schedule_; }

 private:
  struct Member {
    Optimizer* optimizer;
    Tensor sum;                 // separate: the accumulator
    Tensor average;             // of the weights that the optimizer owns, if wanted
    Tensor buffers_before;      // module buffers at the start of the window
    Tensor buffers_kept;        // drop_micro_batch: as the last kept micro-batch left them
    std::vector<char> claimed;  // not fused: parameters that any micro-batch reached

    const Parameters& parameters() const { return optimizer->parameters(); }
    size_t number(const Parameters::Entry& entry) const {
      return static_cast<size_t>(&entry - parameters().entries().data());
    }
  };
  // A parameter.
  struct Owner {
    Member* member;
    size_t entry;

    const Parameters::Entry& parameter() const { return member->parameters().entries()[entry]; }
    Parameters::Range range() const { return parameter().range(); }
    char& claimed() const { return member->claimed[entry]; }
  };

  // The key of recorded work: the caller's variant, the number of samples, whether it writes or
  // adds, and the size of the window if gradients are shares of it.
  struct MicroStep {
    int64_t variant, samples;
    bool writes;
    int64_t window_size;
    auto operator<=>(const MicroStep&) const = default;
  };
  // For each parameter of each member, 1 if it has a gradient.
  using Claims = std::vector<char>;
  // What ranks tell each other of a window.
  struct Counts {
    int64_t micro_batches, samples, expected_samples, dropped_samples;
    size_t terms;
    double loss_sum, weight, first_squares, first_weight;
    std::array<double, max_loss_terms> term_sums;
  };
  // The number of a parameter whose gradient is complete, or what a rank says instead.
  enum class Completed : int64_t { all = -1, waiting = -2 };
  // A step is recorded whole, or in two parts if others' decisions come between them.
  enum class Part { whole, decide, apply };

  void check_members() const;
  const Tensor& accumulator(const Member& member) const {
    return member.sum.defined() ? member.sum : member.parameters().gradients();
  }
  bool has_gradient(const Member& member, const Parameters::Entry& entry) const;
  void count(int64_t samples);
  // Of the gradient that this rank has accumulated, or of its shard of all ranks' sum.
  enum class SquaresOf { own_gradient, own_shard };
  bool sum_squares(SquaresOf of);
  // Runs backward from loss scale * weight / N (or, with moments, the samples expected); with
  // LossSum::add it adds the loss to the window's.
  enum class LossSum { leave, add };
  void differentiate(const Tensor& loss, const LossWeight& weight, LossSum sum,
                     const GradHook& hook = {});
  void accumulate_separately(Member& member);
  void judge(const Tensor& loss, const LossWeight& weight, int64_t samples);
  void add_terms(const Loss& loss, const LossWeight& weight);
  // moments, step_in_backward
  GradHook dropping_hook();
  GradHook exchanging_hook();
  void fold(const Owner& parameter, const View& gradient, double scale);
  void step_in_backward(const Owner& parameter, const Tensor& gradient);
  void decide_before_backward();
  void decide();
  void begin_steps();
  std::vector<Parameters::Range> stepped_ranges(const Member& member) const;
  Claims claims() const;
  void set_claims(const Claims& claims);
  void tell_device();
  void prepare_step();
  void add_other_ranks();
  void add_buffers(double weight);
  Counts add_counts();
  Completed await_completed(Completed own);
  void step_with_others();
  void add_norms();
  // The WindowState, or a copy of it on the cpu.
  Tensor state_on_host() const;
  Parameters::Range shard(const Member& member) const;
  void share_values(const Member& member);
  bool has_others() const { return ranks_ && !is_meta(device_); }
  bool adds_gradually() const;
  GradualSum gradual_sum() const;
  void unite_claims();
  void add_gradients();
  void add_moments();
  void run_step(Part part);
  void finish_step();
  void step_range(Member& member, Parameters::Range range);
  // Settle or keep a member's module buffers by the outcome in a WindowState.
  static void settle(Member& member, View state);
  static void keep(Member& member, View state);
  void take_report();
  void remember_buffers();
  void start_next();

  std::vector<Member> members_;
  Schedule schedule_;
  WindowOptions options_;
  Device device_;
  Tensor state_;          // a WindowState
  Tensor norm_partials_;  // f64 [norm_partials]
  Ranks* ranks_;          // null for one
  Tensor ranks_scratch_;
  Replays<MicroStep> micro_steps_;
  Replays<std::pair<Part, Claims>> steps_;
  std::map<MicroStep, Claims> claims_after_;
  // For hooks: all parameters, and the number of each by its variable.
  std::vector<Owner> owners_;
  std::unordered_map<const Variable*, size_t> numbers_;
  Readback outcomes_;
  std::deque<StepReport> in_flight_;  // what the host knows of them
  std::vector<StepReport> reports_;
  int64_t micro_batches_ = 0, samples_ = 0, taken_ = 0;
  int64_t expected_samples_ = 0;  // of this window
  size_t terms_ = 0;              // that its losses have
  bool last_is_next_ = false;
  // Of the gradients, from when on this rank has completed some.
  std::optional<GradualSum> gradient_sum_;
  double kept_samples_ = 0;  // of this rank, in the last window
  Counts counts_{};          // of all ranks, once added up
  bool planned_ = false;     // this window's step
  bool touched_ = false;     // weights, moments or step counts, in this window
};

}  // namespace accrue
