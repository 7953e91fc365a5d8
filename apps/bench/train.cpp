
#include <chrono>
#include <nlohmann/json.hpp>

#include "accumulate/ladder/machine_rates.h"
#include "accumulate/ranks.h"
#include "apps/bench/commands.h"
#include "apps/cli/messages.h"
#include "apps/cli/output.h"
#include "core/cuda.h"
#include "core/median.h"
#include "core/refused_graphs.h"
#include "job/load_data.h"
#include "job/machine.h"
#include "job/memory_advice.h"
#include "kernels/parallel.h"
#include "train/memory_prediction.h"
#include "train/process.h"
#include "train/profile_json.h"
#include "train/profile_report.h"
#include "train/relative_cost.h"
#include "train/roofline.h"
#include "train/training.h"

namespace accrue::app {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_for(auto&& work) {
  const auto start = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void wait_for(Device device) {
  if (device == Device::cuda) cuda::synchronize();
}

// Runs the windows of a training, one after another. All ranks that share them run the same number.
class Windows {
 public:
  Windows(Training& training, const TrainingOptions& options)
      : training_(training), ranks_(options.ranks) {}

  void run() {
    if (window_ == training_.loader().windows_per_epoch()) ++epoch_, window_ = 0;
    training_.play(epoch_, window_++, silent_);
    training_.window().reports();
  }

  // Runs `together` windows and returns the seconds per window. On cuda, windows are enqueued
  // faster than they run, so only the time of several together shows the cost of one.
  double seconds(int together) {
    return seconds_for([&] {
             for (int i = 0; i < together; ++i) run();
             wait_for(training_.device());
           }) /
           together;
  }

  // Calls work() until the time has passed on any rank.
  template <class Work>
  void run_for(double seconds, Work&& work) {
    const auto start = Clock::now();
    const auto over = [&] {
      return std::chrono::duration<double>(Clock::now() - start).count() >= seconds;
    };
    do work();
    while (!(ranks_ ? ranks_->any(over()) : over()));
  }

 private:
  Training& training_;
  Ranks* const ranks_;
  Observer silent_;
  int64_t epoch_ = 0, window_ = 0;
};

// Prints the cost of timing every kernel (on cuda, without graphs): a window's time with it and
// without.
void print_cost(const Profile& profile, double seconds_without) {
  const double seconds = profile.total_us() * 1e-6 / double(profile.steps());
  say("a profiled window takes {:.1f} us (mean), one without {:.1f} us (median)\n", seconds * 1e6,
      seconds_without * 1e6);
}

// Runs more windows and times each of their kernels.
std::unique_ptr<Profile> profile_windows(Windows& windows, Device device, double seconds) {
  auto profile = std::make_unique<Profile>(device, 0);
  windows.run_for(seconds, [&] { windows.run(); });
  profile->stop();
  return profile;
}

}  // namespace

Settings settings_of(BenchTrainOptions& bench, Request& options) {
  constexpr Decides no_result = Decides::no_result;
  Settings s;
  s.group("Options")
      .add(bench.seconds, {.name = "seconds",
                           .decides = no_result,
                           .help = "How long to measure",
                           .range = above_zero,
                           .asked_by = AskedBy::most_runs})
      .add_flag(bench.profile, true,
                {"profile", no_result,
                 "Then run windows for as long again with every kernel timed, without CUDA graphs, "
                 "and show a table by phase and op"})
      .add_flag(bench.roofline, true,
                {"roofline", no_result,
                 "Show how long an H200 takes at least for each kernel of a micro-step and of a "
                 "step, by its bytes and operations; on cuda beside the times of --profile, "
                 "elsewhere without measuring"})
      .add(options.json, {"json", no_result, "Write the figures", writes("FILE", Path::text)});
  return s;
}

void bench_train(const Request& asked, const BenchTrainOptions& bench) {
  check_output(asked.json);
  const Device device = apply_machine_settings(asked, spoken());
  const Datasets data = place_data(load_data(asked, DataUse::training, spoken()), device);
  const Request options = with_micro_batch_chosen(asked, data, device, spoken());
  const TrainingOptions trained = options.training(data.train);
  check(
      trained.players.empty(),
      "bench train measures networks of one loss, but --model {} is a game of {}: expected another "
      "model; accrue train says how many samples a second it took",
      options.model_name, trained.players.size());
  std::optional<Roofline> roofline;
  if (bench.roofline) roofline = roofline_of(trained, data.train);
  if (roofline && device != Device::cuda) {
    say("{} {}\n{}", options.model_title(), trained.batches.describe(), roofline_table(*roofline));
    const nlohmann::ordered_json result{{"model", options.model_title()},
                                        {"roofline", roofline_json(*roofline)}};
    if (!options.json.empty()) write_output(options.json, result.dump(2) + "\n");
    return;
  }
  const Batches batches = trained.batches;
  const size_t resident_before = resident_bytes();
  Training training(trained, data.train, device);
  const ladder::GemmProbe probe(device);

  Windows windows(training, trained);
  for (int i = 0; i < 3; ++i) windows.run(), probe.flops_per_s();

  std::vector<double> window_seconds, gemm_rates;
  windows.run_for(bench.seconds, [&] {
    const int together = device == Device::cuda ? 20 : 1;
    for (int i = 0; i < 20; i += together) window_seconds.push_back(windows.seconds(together));
    gemm_rates.push_back(probe.flops_per_s());
  });
  for (const std::string& line : cuda::refused_graphs()) say_error("warning: {}\n", line);
  const double samples_per_s = double(batches.effective) / median(window_seconds);
  const DomainModel model = options.domains.model(options.model_name);
  const Field& seen = data.train.field(model.input());
  const double pieces_per_s = double(seen.shape_of(1).numel()) * samples_per_s;
  const double flops = training_flops_per_sample(trained.model, seen.shape_of(1), seen.encoding);
  double gemm_rate = median(gemm_rates);
  if (trained.ranks) trained.ranks->add_up({&gemm_rate, 1});
  const double share = samples_per_s * flops / gemm_rate;
  say("{} {}: {} on {} (median of {}, {})\n", options.model_title(), batches.describe(),
      model.pieces.empty() ? fmt::format("{:.0f} samples/s", samples_per_s)
                           : fmt::format("{:.0f} {}/s", pieces_per_s, model.pieces),
      name(device), window_seconds.size(), counted(thread_count(), "thread"));
  say("{:.2f} MFLOP a sample: {:.1f} GFLOP/s, {:.0f} % of the {:.1f} GFLOP/s of a {}^3 GEMM\n",
      flops / 1e6, samples_per_s * flops / 1e9, 100 * share, gemm_rate / 1e9,
      MachineRates::gemm_size(device));
  nlohmann::ordered_json result{{"model", options.model_title()},
                                {"micro_batch", batches.micro},
                                {"effective_batch", batches.effective},
                                {"device", name(device)},
                                {"ranks", training.ranks()},
                                {"threads", thread_count()},
                                {"samples_per_s", samples_per_s},
                                {"windows", window_seconds.size()},
                                {"peak_rss_bytes", peak_resident_bytes()},
                                {"peak_rss_growth_bytes", peak_resident_bytes() - resident_before},
                                {"flops_per_sample", flops},
                                {"gemm_flops_per_s", gemm_rate},
                                {"share_of_gemm_rate", share}};
  if (!model.pieces.empty()) result[model.pieces + "_per_s"] = pieces_per_s;
  if (bench.profile || roofline) {
    const auto profile = profile_windows(windows, device, bench.seconds);
    const MachineRates rates{gemm_rate, ladder::copy_bytes_per_s(device)};
    say("\n{}", profile_table(*profile, rates, terminal_columns()));
    print_cost(*profile, median(window_seconds));
    result["profile"] = profile_json(*profile, rates);
    if (roofline) {
      add_measured(*roofline, *profile);
      say("\n{}", roofline_table(*roofline));
      result["roofline"] = roofline_json(*roofline);
    }
  }
  if (!options.json.empty()) write_output(options.json, result.dump(2) + "\n");
}

}  // namespace accrue::app
