#include "job/run_results.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "train/json.h"
#include "train/process.h"

namespace accrue {

RunRecorder::RunRecorder(const Request& request, Trainer& trainer, const Datasets& data,
                         size_t resident_before)
    : request_(request), trainer_(trainer), data_(data), resident_before_(resident_before) {}

void RunRecorder::begin() {
  // The scores of the previous run remain until this run ends.
  results_ = {.score = results_.score, .score_of_average = results_.score_of_average};
  weight_seen_ = 0;
  weighed_windows_ = 0;
  batches_ = trainer_.training().batches().describe();
  if (const DomainModel model = request_.domains.model(request_.model_name);
      !model.pieces.empty()) {
    results_.pieces = model.pieces;
    results_.pieces_of_sample = double(data_.train.field(model.input()).shape_of(1).numel());
  }
  results_.terms = trainer_.training().objective().terms_in(data_.train);
  results_.steps_before = trainer_.training().steps();
  results_.seconds_before = trainer_.seconds();
  results_.scored = data_.test.is_trained_on ? "training" : "test";
  start_ = Clock::now();
}

double RunRecorder::seconds_since_begin() const {
  return std::chrono::duration<double>(Clock::now() - start_).count();
}

bool RunRecorder::is_counted(const WindowReport& report) const {
  const auto& players = trainer_.options().players;
  const auto player = std::find_if(players.rbegin(), players.rend(),
                                   [](const auto& p) { return p.every == 1 && p.times == 1; });
  return player == players.rend() || report.player == player->name;
}

void RunRecorder::on_step(const WindowReport& report) {
  if (!is_counted(report)) return;
  ++results_.windows;
  results_.last_step = report.step;
  results_.samples += report.samples;
  results_.noise_scale = report.noise_scale;
  if (report.skipped) return count_skipped(report);
  weight_seen_ += report.weight;
  ++weighed_windows_;
}

// A skipped window is not lost if a lower loss scale avoids its overflow.
void RunRecorder::count_skipped(const WindowReport& report) {
  ++results_.skipped;
  if (report.no_weight) return;
  const bool is_scale = trainer_.training().window().options().loss_scale.is_dynamic() &&
                        std::isfinite(report.loss) && report.loss_scale > 1;
  if (!is_scale) ++results_.lost;
}

void RunRecorder::end() {
  results_.seconds = seconds_since_begin();
  results_.training_seconds = trainer_.seconds() - results_.seconds_before;
  results_.is_interrupted = !trainer_.is_finished();
  results_.effective_terms =
      results_.terms.name == "samples" || weighed_windows_ == 0
          ? double(trainer_.options().batches.effective)
          : results_.terms.of_sample * weight_seen_ / double(weighed_windows_);
  results_.score.reset();
  results_.score_of_average.reset();
  peak_ = ledger(trainer_.training().device()).peak();
  resident_growth_ = peak_resident_bytes() - resident_before_;
}

void RunRecorder::score(const Score& test, const std::optional<Score>& of_average) {
  results_.score = test;
  results_.score_of_average = of_average;
}

std::string RunRecorder::to_json() const {
  const RunResults& r = results_;
  const Parameters& parameters = trainer_.training().parameters();
  nlohmann::ordered_json json{
      {"model", request_.model_title()},   {"parameters", parameters.count()},
      {"data", data_.train.name},          {"training_samples", data_.train.size()},
      {"test_samples", data_.test.size()}, {"batches", batches_}};
  if (parameters.trained_count() != parameters.count())
    json["trained_parameters"] = parameters.trained_count();
  if (r.last_step) json["steps"] = *r.last_step;
  json["status"] = r.is_interrupted ? "interrupted" : "finished";
  json["samples"] = r.samples;
  json["skipped_windows"] = r.skipped;
  json["seconds"] = r.seconds;
  json["training_seconds"] = r.training_seconds;
  json["samples_per_s"] = double(r.samples) / r.training_seconds;
  if (r.pieces != "samples")
    json[r.pieces + "_per_s"] = r.pieces_of_sample * double(r.samples) / r.training_seconds;
  json["peak_bytes"] = with_total(peak_);
  json["peak_rss_growth_bytes"] = resident_growth_;
  if (request_.noise_scale) {
    json["noise_scale"] = r.noise_scale;
    json["noise_scale_in"] = r.terms.name;
  }
  if (r.score) {
    json["scored_samples"] = r.scored;
    json["test"] = accrue::to_json(*r.score);
  }
  if (r.score_of_average) json["test_ema"] = accrue::to_json(*r.score_of_average);
  return json.dump();
}

}  // namespace accrue
