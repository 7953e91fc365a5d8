#include "train/trainer.h"

#include <chrono>

#include "train/weights.h"

namespace accrue {

Trainer::Trainer(const TrainingOptions& options, const Dataset& data, Device device)
    : options_(options),
      data_(data),
      training_(make_training(options, data, device)),
      total_steps_(options.total_steps(data.size())),
      skipped_(training_, options_, data_),
      checkpoints_(options_, data_, training_, state()) {}

StateDict Trainer::state() {
  StateDict dict{.numbers = {{"epoch", &epoch_},
                             {"window_in_epoch", &window_in_epoch_},
                             {"epoch_loss_sum", &epoch_loss_sum_}}};
  skipped_.add_state(dict);
  return dict;
}

int64_t Trainer::windows_per_epoch() const {
  return ceil_div(data_.size(), options_.batches.effective);
}

bool Trainer::is_finished() const {
  return epoch_ >= options_.epochs || training_.window().steps() >= total_steps_;
}

int64_t Trainer::windows() const { return epoch_ * windows_per_epoch() + window_in_epoch_; }

void Trainer::resume(Observer& observer) { checkpoints_.resume(observer); }

void Trainer::load_weights(const std::string& path) {
  accrue::load_weights(path, training_.parameters());
  training_.window().restored();
}

void Trainer::run(Observer& observer, const StopRequest& stop) {
  Window& window = training_.window();
  WindowRunner windows(training_, options_);
  ledger(training_.device()).reset_peak();
  const auto start = std::chrono::steady_clock::now();
  const auto out_of_time = [&] {
    const std::chrono::duration<double, std::ratio<60>> minutes =
        std::chrono::steady_clock::now() - start;
    return options_.max_minutes && minutes.count() >= *options_.max_minutes;
  };
  // A window that is skipped is no step, but its samples have had their turn in the epoch.
  while (!is_finished() && stop() == Stop::no) {
    windows.micro_steps(epoch_, window_in_epoch_, observer, stop);
    window.enqueue_step();
    observer.on_window(window);
    const bool epoch_ends = ++window_in_epoch_ == windows_per_epoch();
    const bool wait = epoch_ends || checkpoints_.due() || window.steps() >= total_steps_;
    take_reports(observer, wait ? Window::Wait::yes : Window::Wait::no);
    if (epoch_ends) {
      window.schedule().observe(epoch_loss_sum_);
      ++epoch_;
      window_in_epoch_ = 0;
      epoch_loss_sum_ = 0;
    }
    if (checkpoints_.due()) save_checkpoint(observer);
    if (out_of_time()) break;
  }
  take_reports(observer, Window::Wait::yes);
  save_checkpoint(observer);
}

void Trainer::take_reports(Observer& observer, Window::Wait wait) {
  for (const StepReport& report : training_.window().reports(wait)) {
    skipped_.see(report);
    epoch_loss_sum_ += report.loss * double(report.samples);
    observer.on_step(epoch_, report);
  }
}

// The observer first: a log then has every window before a checkpoint.
void Trainer::save_checkpoint(Observer& observer) {
  observer.on_checkpoint();
  checkpoints_.save();
}

Score Trainer::evaluate(const Dataset& data) {
  // Without the loader's memory a run that fitted has enough to be scored.
  training_.release_loader();
  return with_fewer_samples(training_.batches().micro, [&](int64_t samples) {
    return accrue::evaluate(training_.model(), training_.objective(), data, samples,
                            training_.parameters().compute_dtype(), training_.device());
  });
}

std::optional<Score> Trainer::evaluate_average(const Dataset& data) {
  if (!options_.ema) return std::nullopt;
  training_.window().exchange_averages();
  const Score result = evaluate(data);
  training_.window().exchange_averages();
  return result;
}

void Trainer::save_weights(const std::string& path) {
  accrue::save_weights(path, training_.parameters());
}

void Trainer::save_average(const std::string& path) {
  training_.window().exchange_averages();
  save_weights(path);
  training_.window().exchange_averages();
}

}  // namespace accrue
