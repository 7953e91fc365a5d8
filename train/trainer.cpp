#include "train/trainer.h"

#include <chrono>
#include <set>

#include "accumulate/ranks.h"
#include "core/inside.h"
#include "core/refused_graphs.h"

namespace accrue {

Trainer::Trainer(const TrainingOptions& options, const Dataset& data, Device device,
                 std::optional<Dataset> scored)
    : options_(options),
      data_(data),
      training_(options, data, device),
      total_steps_(options.total_steps(data.size())),
      terms_of_sample_(training_.objective().terms_in(data).of_sample),
      reports_(reports_of_players()),
      scored_(std::move(scored)),
      checkpoints_(options_, data_, training_, state(), scored_ ? &*scored_ : nullptr) {
  check(!options.eval_every || scored_,
        "the run should be scored while it trains, but there is no data for that: expected another "
        "data set");
  check(options.eval_every || (!options.patience && !options.keep_best),
        "the best score is wanted, but no scores are: expected eval_every, too");
  check(!options.keep_best || !options.checkpoints.directory.empty(),
        "the best checkpoint is to be kept, but there are none: expected a directory for them");
}

std::deque<Trainer::PlayerReports> Trainer::reports_of_players() {
  std::deque<PlayerReports> reports;
  for (const Player& player : training_.game().players())
    reports.push_back({player, SkippedWindows(training_, options_, data_, player)});
  return reports;
}

StateDict Trainer::state() {
  StateDict dict{.numbers = {{"epoch", &epoch_},
                             {"window_in_epoch", &window_in_epoch_},
                             {"best_loss", &best_loss_},
                             {"scores_without_better", &without_better_}}};
  for (PlayerReports& reports : reports_) {
    const Player& player = reports.player;
    dict.numbers.emplace_back(player.named("windows"), &reports.seen);
    dict.numbers.emplace_back(player.named("epoch_loss_sum"), &reports.epoch_loss_sum);
    reports.skipped.add_state(dict);
  }
  return dict;
}

int64_t Trainer::windows_per_epoch() const {
  return ceil_div(data_.size(), options_.batches.effective);
}

bool Trainer::has_stopped_early() const {
  return options_.patience && without_better_ >= *options_.patience;
}

bool Trainer::is_finished() const {
  return has_stopped_early() || epoch_ >= options_.epochs || training_.steps() >= total_steps_;
}

void Trainer::set_epochs(int64_t epochs) {
  using enum ScheduleOptions::Kind;
  check(epochs >= windows() / windows_per_epoch(),
        "the run is to end after epoch {}, but {} have ended: expected that or more", epochs,
        counted(epoch_, "epoch"));
  std::vector<ScheduleOptions::Kind> kinds{options_.schedule.kind};
  for (const PlayerOptions& player : options_.players) kinds.push_back(player.step.schedule.kind);
  for (const ScheduleOptions::Kind kind : kinds)
    check(epochs <= options_.epochs || (kind != cosine && kind != one_cycle),
          "the run is to go on to the end of epoch {}, but the schedule {} ends with epoch {}: "
          "expected so many epochs from the beginning",
          epochs, name_in(schedule_names(), kind), options_.epochs);
  options_.epochs = epochs;
  total_steps_ = options_.total_steps(data_.size());
}

int64_t Trainer::windows() const { return epoch_ * windows_per_epoch() + window_in_epoch_; }

bool Trainer::resume(Observer& observer) {
  if (!checkpoints_.resume(observer)) {
    has_resumed_ = true;
    return false;
  }
  if (on_any(checkpoints_.has_scored_other_data())) {
    best_loss_ = std::numeric_limits<double>::infinity();
    without_better_ = 0;
  }
  const int64_t steps = training_.steps(), most = options_.steps.value_or(steps);
  check(steps <= most,
        "the run is to end after step {}, but the checkpoint that it would go on from has taken "
        "{}: expected steps of {} or more, or another directory for a run of its own",
        most, steps, steps);
  check(windows() <= options_.epochs * windows_per_epoch(),
        "the run is to end after epoch {}, but the checkpoint that it would go on from is in epoch "
        "{}: expected epochs of {} or more, or another directory for a run of its own",
        options_.epochs, epoch_ + 1, ceil_div(windows(), windows_per_epoch()));
  has_resumed_ = true;
  return true;
}

Checkpoints Trainer::checkpoints_in(const std::string& directory) {
  check(!options_.ranks || options_.ranks->count() == 1,
        "the state of a run is shared by {}: expected a directory for checkpoints in its options",
        counted(options_.ranks ? options_.ranks->count() : 1, "rank"));
  TrainingOptions options = options_;
  options.checkpoints.directory = directory;
  options.checkpoints.resume = true;
  return {options, data_, training_, state(), scored_ ? &*scored_ : nullptr};
}

void Trainer::save_state(const std::string& directory) { checkpoints_in(directory).save_now(); }

void Trainer::restore_state(const std::string& directory) {
  Observer observer;
  check(checkpoints_in(directory).resume(observer), "there is no checkpoint in '{}'", directory);
  has_resumed_ = true;
}

std::optional<OtherHead> Trainer::load_weights(const std::string& path, NewHead new_head) {
  std::optional<OtherHead> other;
  check(options_.players.empty() || new_head == NewHead::of_other_size,
        "{} networks that train each other begin with all of their weights: expected no new head",
        options_.players.size());
  if (options_.players.empty()) other = load_pretrained(path, training_.parameters(), new_head);
  else accrue::load_weights(path, training_.parameters());
  training_.window().restored();
  return other;
}

bool Trainer::on_any(bool here) const { return options_.ranks ? options_.ranks->any(here) : here; }

// Ranks go through the same windows only if these values are equal.
void Trainer::check_other_ranks() const {
  if (!options_.ranks) return;
  struct Known {
    const char* name;
    int64_t value;
  };
  for (const auto& [name, value] : {Known{"samples of data", data_.size()},
                                    {"samples in a window", options_.batches.effective},
                                    {"samples in a micro-batch", options_.batches.micro},
                                    {"optimizer steps to take", total_steps_}}) {
    const std::vector<int64_t> all = options_.ranks->all_of(value);
    for (size_t r = 1; r < all.size(); ++r)
      check(all[r] == all[0],
            "rank 0 has {} {}, rank {} {}: expected the same settings and data on all", all[0],
            name, r, all[r]);
  }
}

void Trainer::run(Observer& observer, const StopRequest& stop) {
  check_other_ranks();
  if (options_.checkpoints.resume && !has_resumed_) resume(observer);
  ledger(training_.device()).reset_peak();
  const Stopwatch::Running running(watch_);
  std::set<std::string> refused_graphs;
  const auto start = std::chrono::steady_clock::now();
  const auto out_of_time = [&] {
    const std::chrono::duration<double, std::ratio<60>> minutes =
        std::chrono::steady_clock::now() - start;
    return minutes.count() >= *options_.max_minutes;
  };
  // A skipped window is no step, but the epoch has used its samples.
  while (!is_finished() && !on_any(stop() != Stop::no)) {
    training_.play(epoch_, window_in_epoch_, observer, stop);
    for (const std::string& line : cuda::refused_graphs())
      if (refused_graphs.insert(line).second) observer.on_refused_graph(line);
    const bool epoch_ends = ++window_in_epoch_ == windows_per_epoch();
    const bool evaluates = evaluates_now(epoch_ends);
    const bool wait =
        epoch_ends || evaluates || checkpoints_.due() || training_.steps() >= total_steps_;
    take_reports(observer, wait ? Window::Wait::yes : Window::Wait::no);
    if (epoch_ends) {
      for (PlayerReports& reports : reports_)
        reports.player.window.schedule().observe(std::exchange(reports.epoch_loss_sum, 0));
      ++epoch_;
      window_in_epoch_ = 0;
    }
    if (evaluates) score_on_the_way(observer, stop);
    if (epoch_ends) {
      const Stopwatch::Paused paused(watch_);
      observer.on_epoch(epoch_ - 1);
    }
    if (checkpoints_.due()) save_checkpoint(observer);
    if (options_.max_minutes && on_any(out_of_time())) break;
  }
  take_reports(observer, Window::Wait::yes);
  if (is_finished())
    for (const PlayerReports& reports : reports_) reports.skipped.end();
  save_checkpoint(observer);
}

bool Trainer::evaluates_now(bool epoch_ends) const {
  if (!options_.eval_every) return false;
  return *options_.eval_every == each_epoch ? epoch_ends : windows() % *options_.eval_every == 0;
}

void Trainer::score_on_the_way(Observer& observer, const StopRequest& stop) {
  const Stopwatch::Paused paused(watch_);
  const Score score = with_fewer_samples(training_.batches().micro, [&](int64_t samples) {
    return accrue::evaluate(training_.model(), training_.objective(), *scored_, samples,
                            training_.parameters().compute_dtype(), training_.device(),
                            options_.ranks, training_.batches().piece, stop);
  });
  const bool is_best = score.loss < best_loss_;
  if (is_best) best_loss_ = score.loss;
  without_better_ = is_best ? 0 : without_better_ + 1;
  observer.on_score(window_in_epoch_ == 0 ? epoch_ - 1 : epoch_, windows(), score, is_best);
  if (!is_best || !options_.keep_best) return;
  observer.on_checkpoint();
  checkpoints_.save_best();
}

// On cuda one player's reports may be known several windows before another's. They are passed on in
// the order of the windows, and of the players in each window.
void Trainer::take_reports(Observer& observer, Window::Wait wait) {
  for (PlayerReports& reports : reports_)
    std::ranges::move(reports.player.window.reports(wait), std::back_inserter(reports.waiting));
  for (;;) {
    PlayerReports& next = *std::ranges::min_element(reports_, {}, &PlayerReports::window);
    if (next.waiting.empty()) return;
    const StepReport report = std::move(next.waiting.front());
    next.waiting.pop_front();
    WindowReport told{report,           epoch_,           next.window(),
                      watch_.seconds(), next.player.name, next.player.terms};
    told.noise_scale *= terms_of_sample_;
    ++next.seen;
    if (!report.no_weight) next.epoch_loss_sum += report.loss * report.weight;
    next.skipped.see(told);
    const Stopwatch::Paused paused(watch_);
    observer.on_step(told);
  }
}

// The observer is called first, so that a log has every window before a checkpoint.
void Trainer::save_checkpoint(Observer& observer) {
  const Stopwatch::Paused paused(watch_);
  observer.on_checkpoint();
  checkpoints_.save();
}

Score Trainer::evaluate(const Dataset& data, const StopRequest& stop) {
  // Freeing the loader's memory leaves enough for scoring, if the run itself fitted.
  training_.release_loader();
  return with_fewer_samples(training_.batches().micro, [&](int64_t samples) {
    return accrue::evaluate(training_.model(), training_.objective(), data, samples,
                            training_.parameters().compute_dtype(), training_.device(),
                            options_.ranks, training_.batches().piece, stop);
  });
}

std::optional<Score> Trainer::evaluate_average(const Dataset& data, const StopRequest& stop) {
  if (!options_.ema) return std::nullopt;
  training_.window().exchange_averages();
  std::optional<Score> result;
  try {
    result = evaluate(data, stop);
  } catch (const Stopped&) {
    training_.window().exchange_averages();
    throw;
  }
  training_.window().exchange_averages();
  return result;
}

void Trainer::save_weights(const std::string& path) {
  if (options_.is_first_rank())
    accrue::save_weights(path, training_.parameters(), options_.weights_metadata());
}

void Trainer::save_average(const std::string& path) {
  training_.window().exchange_averages();
  save_weights(path);
  training_.window().exchange_averages();
}

}  // namespace accrue
