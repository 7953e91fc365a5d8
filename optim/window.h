#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <vector>

#include "core/readback.h"
#include "core/replay.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"

namespace accrue {

// How the gradients of a window's micro-batches come together.
enum class Strategy {
  fused,    // backward kernels write dst = value + beta * dst into the accumulator (the default)
  separate  // a second gradient buffer, then the explicit kernel sum += n_i/N * g: what is
            // written by hand everywhere, and this library's own baseline
};

struct WindowOptions {
  int64_t effective_batch_size = 1;  // N
  Strategy strategy = Strategy::fused;
  // Largest global L2 norm of the window's gradient; the whole window is scaled down to it.
  std::optional<double> clip_norm;
  // Multiplies the loss's gradient in backward and is divided out in the step.
  double loss_scale = 1;
  // On cuda: record micro-steps and steps once and replay them. The same bits either way.
  Graphs graphs = Graphs::on;
};

// What one optimizer step did.
struct StepReport {
  int64_t step = 0;           // optimizer steps taken so far, this one included
  int64_t micro_batches = 0;  // in this window
  int64_t samples = 0;        // in this window: N_actual
  double loss = 0;            // mean over those samples
  double grad_norm = 0;       // of the mean gradient, before clipping
  double lr = 0;
  bool skipped = false;  // a non-finite gradient or loss: nothing was changed
};

// A window of micro-batches that steps once with all its samples or leaves no trace. It owns every
// counter: micro-batch, optimizer step, schedule. Evaluation never touches it.
//
//   for each micro-batch i of the window:  window.backward(loss_i, n_i)   loss_i a mean over n_i
//   window.step()
//
// takes the step of one batch of all the window's samples:
//   gradient = sum_i n_i * dloss_i / sum_i n_i
// computed as: backward's seed is loss_scale * n_i / N, added up by the backward kernels
// themselves, and the step multiplies once by N / N_actual / loss_scale * clip. A short last window
// (N_actual < N) is therefore exact.
//
// Losses, norms, step counts and what is decided by them stay on the device: nothing in a window
// waits for it. step() does, because it returns what the step did; enqueue_step() does not, and
// reports() has the outcomes as they arrive.
//
// Load weights before making the window: it remembers the module buffers it is to restore.
//
// Several optimizers (a GAN's two) share one window: each keeps its own parameters, frozen ones
// refuse gradients, all step together, and the clipping norm is over all of them.
class Window {
 public:
  // Throws Error for options out of range or no optimizer.
  Window(std::vector<Optimizer*> optimizers, Schedule schedule, WindowOptions options);
  Window(Optimizer& optimizer, Schedule schedule, WindowOptions options)
      : Window(std::vector{&optimizer}, std::move(schedule), options) {}

  // Adds the gradient of one micro-batch. `loss` is the mean over its `samples`. Throws Error when
  // the window would exceed N. If anything throws in here (out of memory, bad input), call
  // abandon() before going on.
  void backward(const Tensor& loss, int64_t samples);

  // Runs a micro-step: a forward that ends in backward(loss, samples) on this window, and reads its
  // input from the same tensors every time. On cuda it is then replayed as a graph. `variant`
  // tells apart micro-steps that are not the same work for the same number of samples; that of an
  // earlier variant is forgotten.
  void micro_step(int64_t samples, int64_t variant, const std::function<void()>& work);

  // Steps and starts the next window. A window with a non-finite loss or gradient is abandoned
  // instead, and says so. Throws Error for an empty window.
  StepReport step();

  // The same without waiting for the device, unless it is max_windows_in_flight behind.
  void enqueue_step();
  // What enqueued steps did, oldest first, as far as it is known; with Wait::yes all of it.
  enum class Wait { no, yes };
  std::vector<StepReport> reports(Wait wait = Wait::no);

  // Forgets this window: gradients fresh, module buffers (BatchNorm statistics) as the last step
  // left them; weights, moments and counters were never touched.
  void abandon();

  int64_t micro_batches() const { return micro_batches_; }
  int64_t samples() const { return samples_; }
  // Optimizer steps taken, counting on those that are not reported yet.
  int64_t steps() const { return taken_ + int64_t(in_flight_.size()); }
  double lr() const { return schedule_.lr(steps()); }
  Schedule& schedule() { return schedule_; }

 private:
  struct Member {
    Optimizer* optimizer;
    Tensor sum;                 // separate: the accumulator; fused: undefined, gradients() is it
    Tensor buffers_before;      // module buffers at the start of the window
    std::vector<char> claimed;  // separate: parameters that any micro-batch reached
    const Tensor& accumulator() const {
      return sum.defined() ? sum : optimizer->parameters().gradients();
    }
  };

  // Recorded work is the same if it starts from the same: the number of samples, whether it
  // writes or adds, and what its caller says.
  struct MicroStep {
    int64_t variant, samples;
    bool writes;
    auto operator<=>(const MicroStep&) const = default;
  };
  // For each parameter of each member, whether it has a gradient.
  using Claims = std::vector<char>;

  void count(int64_t samples);
  void accumulate_separately(Member& member, double share);
  std::vector<Parameters::Range> claimed_ranges(const Member& member) const;
  Claims claims() const;
  void set_claims(const Claims& claims);
  void run_step();
  void take_report();
  void remember_buffers();
  void start_next();

  std::vector<Member> members_;
  Schedule schedule_;
  WindowOptions options_;
  Device device_;
  Tensor state_;          // a WindowState
  Tensor norm_partials_;  // f64 [norm_partials]
  Replays<MicroStep> micro_steps_;
  Replays<Claims> whole_steps_;
  std::map<MicroStep, Claims> claims_after_;
  Readback outcomes_;
  std::deque<StepReport> in_flight_;  // what the host knows of them
  std::vector<StepReport> reports_;
  int64_t micro_batches_ = 0, samples_ = 0, taken_ = 0;
};

}  // namespace accrue
