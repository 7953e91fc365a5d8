#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <optional>

#include "job/training_run.h"
#include "python/history.h"
#include "python/interrupts.h"
#include "python/working.h"

namespace accrue::python {

using namespace nb::literals;

// Keeps the history of a run, and tells the caller's accrue._listening.Listener, unless it is None,
// about its windows, scores and epochs. The listener ends the run, after a whole window, by
// returning False. So does the end of `epochs` more epochs.
class RunListener : public RunObserver {
 public:
  RunListener(nb::object told, History& history, std::atomic<int64_t>& steps,
              const TrainingRun& run, std::optional<int64_t> epochs)
      : told_(std::move(told)),
        history_(history),
        steps_(steps),
        recorder_(run.recorder()),
        hears_steps_(!told_.is_none() && nb::cast<bool>(told_.attr("hears_steps"))),
        epochs_left_(epochs) {}

  // Calls `keep` at each score with the lowest loss so far.
  void keep_best(std::function<void()> keep) { keep_best_ = std::move(keep); }

  void on_step(const WindowReport& report) override {
    history_.add(report);
    steps_ = std::max(steps_.load(), report.step);
    if (!report.no_weight && recorder_.is_counted(report)) {
      weight_ += report.weight;
      loss_sum_ += report.loss * report.weight;
      lr_ = report.lr;
      seconds_ = report.seconds;
    }
    if (hears_steps_) tell([&] { return told_.attr("step")(report); });
  }
  void on_score(int64_t epoch, int64_t windows, const Score& score, bool is_best) override {
    if (is_interpreter_ending()) return;
    const nb::gil_scoped_acquire gil;
    const nb::object said = score_of(score);
    history_.add_score(said);
    if (is_best && keep_best_) keep_best_();
    tell([&] { return told_.attr("score")(epoch, windows, said, is_best); });
  }
  void on_epoch(int64_t epoch) override {
    tell([&] {
      return told_.attr("epoch")(epoch, steps_.load(), weight_ > 0 ? loss_sum_ / weight_ : 0, lr_,
                                 seconds_);
    });
    weight_ = loss_sum_ = 0;
    if (epochs_left_ && --*epochs_left_ == 0) is_enough_ = true;
  }
  // A run that is ended so is still scored.
  void on_end() override { is_enough_ = false; }

  // A first interrupt asks to finish the window, a second one to roll it back.
  Stop asked() {
    const int count = interrupts_.count();
    return count > 1 ? Stop::now : count == 1 || is_enough_ ? Stop::after_window : Stop::no;
  }

  // Throws the exception that a signal or the listener has raised.
  void rethrow() { interrupts_.rethrow(); }

 private:
  template <class Work>
  void tell(const Work& work) {
    if (told_.is_none() || interrupts_.has_error() || is_interpreter_ending()) return;
    if (!interrupts_.goes_on_after(work)) is_enough_ = true;
  }

  const nb::object told_;
  History& history_;
  std::atomic<int64_t>& steps_;
  const RunRecorder& recorder_;
  const bool hears_steps_;
  std::function<void()> keep_best_;
  std::optional<int64_t> epochs_left_;
  bool is_enough_ = false;
  double weight_ = 0, loss_sum_ = 0, lr_ = 0, seconds_ = 0;  // of the epoch's windows
  Interrupts interrupts_;
};

}  // namespace accrue::python
