#include "apps/commands/progress.h"

#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "apps/cli/messages.h"
#include "apps/commands/memory_table.h"
#include "job/averages.h"
#include "train/profile_report.h"

namespace accrue::app {
std::string progress_line(const std::vector<std::string>& parts, double done, size_t columns) {
  // Some terminals begin a new line if the last column is filled.
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

// Returns "loss 0.3125", or "generator loss 9.1042 (adversarial 0.693, l1 0.081)".
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

Progress::Progress(TrainingRun& run)
    : run_(run),
      trainer_(run.trainer()),
      request_(run.request()),
      recorder_(run.recorder()),
      results_(run.recorder().results()),
      total_steps_(trainer_.total_steps()),
      terminal_(draws_over(STDOUT_FILENO)) {}

void Progress::on_begin() {
  Training& training = trainer_.training();
  const Datasets& data = run_.data();
  const int64_t trained = training.parameters().trained_count();
  const bool is_whole = trained == training.parameters().count();
  say("{}: {} parameters{} | {}: {} training and {} test samples\n", request_.model_title(),
      training.parameters().count(),
      is_whole ? "" : fmt::format(", of which {} are trained", trained), data.train.name,
      data.train.size(), data.test.size());
  say("effective batch {} | {} | {}\n", training.batches().describe(),
      training.window().schedule().describe(), counted(total_steps_, "optimizer step"));
  for (const std::string& line : describe_averages(trainer_.options())) say("{}\n", line);
  if (const int64_t taken = results_.steps_before; taken > 0)
    say("{} of {} are taken\n", taken, counted(total_steps_, "step"));
}

void Progress::on_step(const WindowReport& report) {
  const bool changed_nothing = report.overflow || report.skipped;
  if (!recorder_.is_counted(report)) {
    if (changed_nothing) print_overflow(report);
    else if (!terminal_ && report.step % request_.log_every == 0) print_line(report);
    other_losses_ = fmt::format("{} {:.3f}", report.player, report.loss);
    return;
  }
  if (terminal_ && report.epoch != epoch_.number) print_epoch();
  epoch_.number = report.epoch;
  if (changed_nothing) print_overflow(report);
  if (report.skipped) return;
  epoch_.weight += report.weight;
  epoch_.loss_sum += report.loss * report.weight;
  if (terminal_) draw_bar(report);
  else if (report.step % request_.log_every == 0 || report.step == total_steps_) print_line(report);
}

void Progress::on_score(int64_t epoch, int64_t windows, const Score& score, bool is_best) {
  say("{}[Epoch {}][Window {} of the run] {} {}{}\n", terminal_ ? "\r\033[K" : "", epoch + 1,
      windows, results_.scored, score.describe(), is_best ? ", the best so far" : "");
}

void Progress::on_halving(const Halving& halving) {
  say("{}[Epoch {}][Window {}] out of memory: {} becomes {}, and the window starts again\n",
      terminal_ ? "\r\033[K" : "", halving.epoch + 1, halving.window + 1, halving.before.describe(),
      halving.after.describe());
  if (const std::string text = about_batch_norm(request_, trainer_.training(), halving.after);
      !text.empty())
    say_error("warning: {}\n", text);
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
  return fmt::format("{:.0f} {}/s", results_.pieces_of_sample * samples_per_s, results_.pieces);
}

// The facts in a bar or a line after the step and its loss, the most important first.
std::vector<std::string> Progress::facts_of(const WindowReport& report) const {
  std::vector<std::string> facts;
  if (recorder_.is_counted(report)) {
    const double for_each = recorder_.seconds_since_begin() / double(results_.windows);
    facts = {describe_seconds(for_each * double(total_steps_ - report.step)) + " left",
             rate(double(results_.samples) / (report.seconds - results_.seconds_before))};
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
  if (!last && Clock::now() - last_bar_ < std::chrono::milliseconds(100)) return;
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

// Prints a line about the epoch that has ended, in place of the bar.
void Progress::print_epoch() {
  if (epoch_.weight == 0) return;
  say("\r\033[Kepoch {}: loss {:.4f}\n", epoch_.number + 1, epoch_.loss_sum / epoch_.weight);
  epoch_ = {};
}

void Progress::print_line(const WindowReport& report) {
  const std::string of = recorder_.is_counted(report) ? fmt::format("/{}", total_steps_) : "";
  say("[Epoch {}][Step {}{}] {} | {}\n", report.epoch + 1, report.step, of, loss_of(report),
      fmt::join(facts_of(report), " | "));
}

void Progress::on_end() {
  if (is_reader_gone() && results_.is_interrupted)
    say_error("warning: the reader of the output has gone: the run ends after a whole window\n");
  if (terminal_) {
    say("\r\033[K");
    print_epoch();
  }
  const int64_t before = results_.steps_before;
  const double seconds = results_.seconds, of_training = results_.training_seconds;
  if (results_.is_interrupted) say("interrupted: stopped after a whole window\n");
  else if (trainer_.has_stopped_early())
    say("stopped early: {} in a row without a lower loss\n",
        counted(*trainer_.options().patience, "score"));
  const int64_t in_all = trainer_.training().steps();
  if (results_.is_interrupted || before > 0)
    say("{}{}, {} of {} in all\n", counted(in_all - before, "optimizer step"),
        before > 0 ? " since it was resumed" : "", in_all, total_steps_);
  say("{} in {:.1f} s{}: {}, {:.1f} % of the time waiting for data\n",
      counted(results_.samples, "sample"), of_training,
      seconds - of_training < 0.05 ? ""
                                   : fmt::format(" of training ({:.1f} s with scores and "
                                                 "checkpoints)",
                                                 seconds),
      rate(double(results_.samples) / of_training),
      100 * trainer_.training().loader().waited_seconds() / of_training);
  if (results_.lost > 0)
    say_error(
        "warning: {} of {} changed nothing, because the loss or its gradient was not finite: the "
        "weights have learned nothing from their samples\n",
        results_.lost, counted(results_.windows, "window"));
  if (request_.noise_scale)
    say("{}\n",
        describe_noise_scale(results_.noise_scale, results_.effective_terms, results_.terms.name));
}

void Progress::on_test_score(const Score& test, const std::optional<Score>& of_average) {
  say("{} {}\n", results_.scored, test.describe());
  if (of_average) say("{} {} (average of the weights)\n", results_.scored, of_average->describe());
}

void Progress::on_peaks(const std::vector<PeakOfRun>& peaks, const ResidentBytes& process) {
  print_memory_table(peaks, process, trainer_.training().batches(), run_.device());
}

void Progress::on_profile(const Profile& profile, const MachineRates& rates) {
  say("\n{}", profile_table(profile, rates, terminal_columns()));
}

}  // namespace accrue::app
