#include "apps/commands/progress.h"

#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "apps/cli/messages.h"
#include "job/averages.h"
#include "train/json.h"
#include "train/process.h"

namespace accrue::app {
std::string progress_line(const std::vector<std::string>& parts, double done, size_t columns) {
  // A full last column makes some terminals begin a new line.
  const size_t room = columns > 0 ? columns - 1 : 0;
  constexpr size_t widest_bar = 24, narrowest_bar = 8;
  std::string text;
  for (const std::string& part : parts) {
    const size_t longer = text.size() + part.size() + (text.empty() ? 0 : 2);
    if (longer > room) break;
    text += (text.empty() ? "" : "  ") + part;
  }
  if (text.size() + narrowest_bar + 3 > room) return text;
  const size_t width = std::min(widest_bar, room - text.size() - 3);
  const auto filled = static_cast<size_t>(double(width) * std::clamp(done, 0.0, 1.0));
  return fmt::format("[{}{}] {}", std::string(filled, '#'), std::string(width - filled, '.'), text);
}

namespace {

// "loss 0.3125", or "generator loss 9.1042 (adversarial 0.693, l1 0.081)".
std::string loss_of(const WindowReport& report) {
  std::string text = report.player.empty() ? "" : report.player + " ";
  text += fmt::format("loss {:.4f}", report.loss);
  for (size_t i = 0; i < report.terms.size(); ++i)
    text +=
        fmt::format("{}{} {:.3g}", i == 0 ? " (" : ", ", report.term_names.at(i), report.terms[i]);
  return report.terms.empty() ? text : text + ")";
}

// "50 s", "14 min", "2.5 h"
std::string describe_seconds(double seconds) {
  if (seconds < 120) return fmt::format("{:.0f} s", seconds);
  return seconds < 7200 ? fmt::format("{:.0f} min", seconds / 60)
                        : fmt::format("{:.1f} h", seconds / 3600);
}

}  // namespace

Progress::Progress(const Request& options, Trainer& trainer, size_t resident_before)
    : options_(options),
      trainer_(trainer),
      total_steps_(trainer.total_steps()),
      resident_before_(resident_before),
      terminal_(draws_over(STDOUT_FILENO)) {}

void Progress::on_damaged_checkpoint(const std::string& reason) {
  say_error("warning: {}; looking at the checkpoint before it\n", reason);
}

void Progress::on_no_checkpoint(const std::filesystem::path& directory) {
  say("no checkpoint in {}: starting from the beginning\n", directory.string());
}

void Progress::on_resume(const std::filesystem::path& checkpoint, const std::string& differences) {
  if (!differences.empty())
    say("the result will equal that of a run that never stopped within rounding, not bit "
        "for bit (except for BatchNorm and drop-micro-batch, which depend on the micro-batch):{}\n",
        differences);
  say("resumed from {}\n", checkpoint.string());
}

void Progress::start(const Datasets& data) {
  Training& training = trainer_.training();
  const std::string batches = training.batches().describe();
  if (const DomainModel model = options_.domains.model(options_.model_name);
      !model.pieces.empty()) {
    pieces_ = model.pieces;
    pieces_of_sample_ = double(data.train.field(model.input()).shape_of(1).numel());
  }
  results_ = {{"model", options_.model_title()},  {"parameters", training.parameters().count()},
              {"data", data.train.name},          {"training_samples", data.train.size()},
              {"test_samples", data.test.size()}, {"batches", batches}};
  const int64_t trained = training.parameters().trained_count();
  const bool is_whole = trained == training.parameters().count();
  if (!is_whole) results_["trained_parameters"] = trained;
  say("{}: {} parameters{} | {}: {} training and {} test samples\n", options_.model_title(),
      training.parameters().count(),
      is_whole ? "" : fmt::format(", of which {} are trained", trained), data.train.name,
      data.train.size(), data.test.size());
  say("effective batch {} | {} | {}\n", batches, training.window().schedule().describe(),
      counted(total_steps_, "optimizer step"));
  for (const std::string& line : describe_averages(trainer_.options())) say("{}\n", line);
  terms_ = training.objective().terms_in(data.train);
  steps_before_ = training.steps();
  seconds_before_ = trainer_.seconds();
  samples_ = steps_ = skipped_ = lost_ = 0;
  scored_ = data.test.is_trained_on ? "training" : "test";
  if (steps_before_ > 0) say("{} of {} are taken\n", steps_before_, counted(total_steps_, "step"));
  start_ = Clock::now();
}

// A window has as many samples for every player: they are counted by the last one that goes through
// each window once.
bool Progress::is_counted(const WindowReport& report) const {
  const auto& players = trainer_.options().players;
  const auto player = std::find_if(players.rbegin(), players.rend(),
                                   [](const auto& p) { return p.every == 1 && p.times == 1; });
  return player == players.rend() || report.player == player->name;
}

void Progress::on_step(const WindowReport& report) {
  if (!is_counted(report)) {
    if (report.overflow || report.skipped) print_overflow(report);
    else if (!terminal_ && report.step % options_.log_every == 0) print_line(report);
    other_losses_ = fmt::format("{} {:.3f}", report.player, report.loss);
    return;
  }
  ++steps_;
  results_["steps"] = report.step;
  samples_ += report.samples;
  noise_scale_ = report.noise_scale;
  if (terminal_ && report.epoch != epoch_.number) print_epoch();
  epoch_.number = report.epoch;
  if (report.overflow || report.skipped) print_overflow(report);
  if (report.skipped) return count_skipped(report);
  epoch_.weight += report.weight;
  epoch_.loss_sum += report.loss * report.weight;
  windows_weight_.seen += report.weight;
  ++windows_weight_.windows;
  if (terminal_) draw_bar(report);
  else if (report.step % options_.log_every == 0 || report.step == total_steps_) print_line(report);
}

// What a loss scale that falls makes good is no loss.
void Progress::count_skipped(const WindowReport& report) {
  ++skipped_;
  if (report.no_weight) return;
  const bool is_scale = trainer_.training().window().options().loss_scale.is_dynamic() &&
                        std::isfinite(report.loss) && report.loss_scale > 1;
  if (!is_scale) ++lost_;
}

void Progress::on_score(int64_t epoch, int64_t windows, const Score& score, bool is_best) {
  say("{}[Epoch {}][Window {} of the run] {} {}{}\n", terminal_ ? "\r\033[K" : "", epoch + 1,
      windows, scored_, score.describe(), is_best ? ", the best so far" : "");
}

void Progress::on_halving(const Halving& halving) {
  say("{}[Epoch {}][Window {}] out of memory: {} becomes {}, and the window starts again\n",
      terminal_ ? "\r\033[K" : "", halving.epoch + 1, halving.window + 1, halving.before.describe(),
      halving.after.describe());
  warn_about_batch_norm(options_, trainer_.training(), halving.after);
}

void Progress::on_refused_graph(const std::string& line) {
  say_error("{}warning: {}\n", terminal_ ? "\r\033[K" : "", line);
}

void Progress::print_overflow(const WindowReport& report) {
  if (report.no_weight) {
    return say("{}[Epoch {}][Step {}] nothing in this window is judged: window skipped\n",
               terminal_ ? "\r\033[K" : "", report.epoch + 1, report.step);
  }
  const std::string what =
      !report.skipped ? counted(report.dropped_samples, "sample") + " dropped" : "window skipped";
  say("{}[Epoch {}][Step {}] loss {} or its gradient is not finite (loss scale {:g}): {}\n",
      terminal_ ? "\r\033[K" : "", report.epoch + 1, report.step, report.loss, report.loss_scale,
      what);
}

std::string Progress::rate(double samples_per_s) const {
  return fmt::format("{:.0f} {}/s", pieces_of_sample_ * samples_per_s, pieces_);
}

// What a bar and a line have beside the step and its loss, the most important first.
std::vector<std::string> Progress::facts_of(const WindowReport& report) const {
  std::vector<std::string> facts;
  if (is_counted(report)) {
    const double for_each = seconds_since(start_) / double(steps_);
    facts = {describe_seconds(for_each * double(total_steps_ - report.step)) + " left",
             rate(double(samples_) / (report.seconds - seconds_before_))};
  }
  if (!std::isnan(report.grad_norm)) facts.push_back(fmt::format("norm {:.3g}", report.grad_norm));
  facts.push_back(fmt::format("lr {:.3g}", report.lr));
  facts.push_back(fmt::format("eff. batch {}", trainer_.training().batches().describe()));
  const size_t peak = ledger(trainer_.training().device()).peak().total();
  facts.push_back(fmt::format("peak {}", format_bytes(peak)));
  return facts;
}

void Progress::draw_bar(const WindowReport& report) {
  const bool last = report.step == total_steps_;
  if (!last && seconds_since(last_bar_) < 0.1) return;
  last_bar_ = Clock::now();
  std::vector<std::string> parts{fmt::format("step {}/{}", report.step, total_steps_),
                                 report.player.empty() ? fmt::format("loss {:.3f}", report.loss)
                                                       : fmt::format("{} {:.3f}  {}", report.player,
                                                                     report.loss, other_losses_)};
  std::ranges::move(facts_of(report), std::back_inserter(parts));
  parts.insert(parts.begin() + 3, fmt::format("epoch {}", report.epoch + 1));
  say("\r\033[K{}",
      progress_line(parts, double(report.step) / double(std::max<int64_t>(1, total_steps_)),
                    terminal_columns()));
}

// The epoch before, in the place of the bar.
void Progress::print_epoch() {
  if (epoch_.weight == 0) return;
  say("\r\033[Kepoch {}: loss {:.4f}\n", epoch_.number + 1, epoch_.loss_sum / epoch_.weight);
  epoch_ = {};
}

void Progress::print_line(const WindowReport& report) {
  const std::string of = is_counted(report) ? fmt::format("/{}", total_steps_) : "";
  say("[Epoch {}][Step {}{}] {} | {}\n", report.epoch + 1, report.step, of, loss_of(report),
      fmt::join(facts_of(report), " | "));
}

void Progress::finish(bool interrupted, double waited_seconds) {
  const double seconds = seconds_since(start_), of_training = trainer_.seconds() - seconds_before_;
  if (terminal_) {
    say("\r\033[K");
    print_epoch();
  }
  if (interrupted) say("interrupted: stopped after a whole window\n");
  else if (trainer_.has_stopped_early())
    say("stopped early: {} in a row without a lower loss\n",
        counted(*trainer_.options().patience, "score"));
  const int64_t in_all = trainer_.training().steps();
  if (interrupted || steps_before_ > 0)
    say("{}{}, {} of {} in all\n", counted(in_all - steps_before_, "optimizer step"),
        steps_before_ > 0 ? " since it was resumed" : "", in_all, total_steps_);
  say("{} in {:.1f} s{}: {}, {:.1f} % of the time waiting for data\n", counted(samples_, "sample"),
      of_training,
      seconds - of_training < 0.05 ? ""
                                   : fmt::format(" of training ({:.1f} s with scores and "
                                                 "checkpoints)",
                                                 seconds),
      rate(double(samples_) / of_training), 100 * waited_seconds / of_training);
  if (lost_ > 0)
    say_error(
        "warning: {} of {} changed nothing, because the loss or its gradient was not finite: the "
        "weights have learnt nothing of their samples\n",
        lost_, counted(steps_, "window"));
  if (options_.noise_scale)
    say("{}\n", describe_noise_scale(noise_scale_, effective_terms(), terms_.name));
  results_["status"] = interrupted ? "interrupted" : "finished";
  results_["samples"] = samples_;
  results_["skipped_windows"] = skipped_;
  results_["seconds"] = seconds;
  results_["training_seconds"] = of_training;
  results_["samples_per_s"] = double(samples_) / of_training;
  if (pieces_ != "samples")
    results_[pieces_ + "_per_s"] = pieces_of_sample_ * double(samples_) / of_training;
  results_["peak_bytes"] = with_total(ledger(trainer_.training().device()).peak());
  results_["peak_rss_growth_bytes"] = peak_resident_bytes() - resident_before_;
  if (!options_.noise_scale) return;
  results_["noise_scale"] = noise_scale_;
  results_["noise_scale_in"] = terms_.name;
}

// In all that a window has of what the loss is a mean over, on average.
double Progress::effective_terms() const {
  const auto& [seen, windows] = windows_weight_;
  if (terms_.name == "samples" || windows == 0) return double(trainer_.options().batches.effective);
  return terms_.of_sample * seen / double(windows);
}

void Progress::score(const Score& test, const std::optional<Score>& of_average) {
  say("{} {}\n", scored_, test.describe());
  if (of_average) say("{} {} (average of the weights)\n", scored_, of_average->describe());
  results_["scored_samples"] = scored_;
  results_["test"] = to_json(test);
  if (of_average) results_["test_ema"] = to_json(*of_average);
}

void warn_about_batch_norm(const Request& options, const Training& training, Batches batches) {
  if (batches.accumulation_steps() == 1 || !training.trains_batch_norm() ||
      options.batch_norm == BatchNormOver::window)
    return;
  const std::string other = options.domains.model(options.model_name).other_norm;
  const bool may_keep_window = training.game().players().size() == 1;
  say_error(
      "warning: BatchNorm normalises over each micro-batch of {}, not over the "
      "effective batch of {}: the result differs from one big batch. {} does not depend on "
      "the split{}.\n",
      counted(batches.micro, "sample"), batches.effective, other.empty() ? "GroupNorm" : other,
      may_keep_window ? ", nor does --batch-norm window"
                      : ", nor does --batch-norm window --batch-norm-by walk");
}

}  // namespace accrue::app
