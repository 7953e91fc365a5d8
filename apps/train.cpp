#include "apps/train.h"

#include "apps/averages.h"
#include "apps/checkpoint.h"
#include "apps/child.h"
#include "apps/interrupt.h"
#include "apps/json_log.h"
#include "apps/memory_advice.h"
#include "apps/memory_table.h"
#include "apps/memory_trace.h"
#include "apps/profile_report.h"
#include "apps/resident.h"
#include "apps/skipped_windows.h"
#include "apps/train_log.h"
#include "apps/training.h"
#include "apps/window_runner.h"
#include "data/atomic_file.h"
#include "train/score.h"
#include "train/weights.h"

namespace accrue::app {
namespace {

void warn_about_batch_norm(const TrainOptions& options, Batches batches) {
  if (!has_batch_norm(options.model.kind) || batches.accumulation_steps() == 1) return;
  fmt::print(stderr,
             "warning: BatchNorm normalises over each micro-batch of {} samples, not over the "
             "effective batch of {}: the result differs from one big batch. {} (GroupNorm) "
             "does not depend on the split.\n",
             batches.micro, batches.effective,
             options.model.kind == ModelKind::resnet_bn ? "resnet" : "cnn-gn");
}

// --init.
void load_initial_weights(const TrainOptions& options, Training& training) {
  if (options.init.empty()) return;
  load_weights(options.init, training.parameters());
  training.window().restored();
}

// The windows of a run: which one is next, what the epoch has come to, and the checkpoints of it.
class TrainingLoop {
 public:
  TrainingLoop(const TrainOptions& options, const Dataset& data, Training& training)
      : options_(options),
        training_(training),
        skipped_(training, options, data),
        checkpoints_(options, data, training, state()) {}

  // With --resume, goes on from a checkpoint if there is one, and the logs from there.
  void resume() {
    if (!options_.resume) return;
    checkpoints_.resume();
    const int64_t windows = epoch_ * training_.loader().windows_per_epoch() + window_in_epoch_;
    std::vector<std::string> logs;
    if (!options_.json.empty()) logs.push_back(options_.json);
    if (!options_.log_dir.empty()) logs.push_back(options_.log_dir + "/metrics.jsonl");
    for (const std::string& log : logs) {
      const int64_t logged = keep_json_windows(log, windows);
      if (logged < windows)
        fmt::print(stderr, "warning: {} has {} of the {} windows before the checkpoint\n", log,
                   logged, windows);
    }
  }

  void run(TrainLog& log, int64_t steps) {
    Window& window = training_.window();
    const int64_t windows_per_epoch = training_.loader().windows_per_epoch();
    Ledger& memory = ledger(training_.parameters().values().device());
    WindowRunner windows(training_, options_, [&](const Halving& halving) {
      log.halved(halving);
      warn_about_batch_norm(options_, halving.after);
      // What is measured is the split that the run goes on with.
      memory.reset_peak();
    });
    memory.reset_peak();
    // A window that is skipped is no step, but its samples have had their turn in the epoch.
    while (window.steps() < steps && epoch_ < options_.epochs && !interrupted()) {
      windows.accumulate(epoch_, window_in_epoch_);
      window.enqueue_step();
      log.gradients(window);
      const bool epoch_ends = ++window_in_epoch_ == windows_per_epoch;
      const bool wait = epoch_ends || checkpoints_.due() || window.steps() >= steps;
      take_reports(log, wait ? Window::Wait::yes : Window::Wait::no);
      if (epoch_ends) {
        window.schedule().observe(epoch_loss_sum_);
        ++epoch_;
        window_in_epoch_ = 0;
        epoch_loss_sum_ = 0;
      }
      if (checkpoints_.due()) save_checkpoint(log);
    }
    take_reports(log, Window::Wait::yes);
    save_checkpoint(log);
  }

 private:
  StateDict state() {
    StateDict dict{.numbers = {{"epoch", &epoch_},
                               {"window_in_epoch", &window_in_epoch_},
                               {"epoch_loss_sum", &epoch_loss_sum_}}};
    skipped_.add_state(dict);
    return dict;
  }

  void take_reports(TrainLog& log, Window::Wait wait) {
    for (const StepReport& report : training_.window().reports(wait)) {
      skipped_.see(report);
      epoch_loss_sum_ += report.loss * double(report.samples);
      log.step(epoch_, report);
    }
  }

  // The log first: it has every window before a checkpoint.
  void save_checkpoint(TrainLog& log) {
    log.flush();
    checkpoints_.save();
  }

  const TrainOptions& options_;
  Training& training_;
  int64_t epoch_ = 0, window_in_epoch_ = 0;
  double epoch_loss_sum_ = 0;  // over the epoch's samples so far
  SkippedWindows skipped_;
  Checkpoints checkpoints_;
};

// A recorded graph allocates nothing while it is replayed: there would be nothing to trace.
TrainOptions graphs_off_if_traced(TrainOptions options, Device device) {
  const bool off = !options.memory_trace.empty() && device == Device::cuda;
  if (off && options.cuda_graphs == Graphs::on)
    fmt::print("--memory-trace: CUDA graphs are off, so that every allocation is seen\n");
  if (off) options.cuda_graphs = Graphs::off;
  return options;
}

// The profile of --profile, from here on.
std::unique_ptr<Profile> start_profile(const TrainOptions& options, Device device) {
  if (options.profile.empty()) return nullptr;
  if (device == Device::cuda && options.cuda_graphs == Graphs::on)
    fmt::print("--profile: CUDA graphs are off, so that every kernel is timed\n");
  return std::make_unique<Profile>(device, options.profile_windows);
}

// On a machine whose memory is full the rates stay 0.
MachineRates rates_if_memory_suffices(Device device, DType dtype) {
  try {
    return measure_rates(device, dtype);
  } catch (const OutOfMemory&) {
    return {};
  }
}

void report_profile(const Profile& profile, const TrainOptions& options, const Training& training) {
  const MachineRates rates =
      rates_if_memory_suffices(profile.device(), compute_dtype(options.precision));
  fmt::print("\n{}", profile_table(profile, rates));
  write_text_atomically(options.profile,
                        profile_trace(profile, rates, options, training.batches()));
  fmt::print("recorded the time of {} windows: {}\n",
             std::min(profile.steps(), options.profile_windows), options.profile);
}

// Without the loader's memory a run that fitted has enough to be scored.
Score score(Training& training, const Dataset& data, Device device) {
  training.release_loader();
  return with_fewer_samples(training.batches().micro, [&](int64_t samples) {
    return evaluate(training.model(), data, samples, training.parameters().compute_dtype(), device);
  });
}

// Of the weights' average, if there is one.
std::optional<Score> score_average(const TrainOptions& options, Training& training,
                                   const Dataset& data, Device device) {
  if (!options.ema) return std::nullopt;
  training.window().exchange_averages();
  const Score result = score(training, data, device);
  training.window().exchange_averages();
  return result;
}

void save_average(const TrainOptions& options, Training& training) {
  if (!options.ema || training.window().steps() == 0) return;
  const std::string path = average_path(options.save);
  training.window().exchange_averages();
  save_weights(path, training.parameters());
  training.window().exchange_averages();
  fmt::print("saved {} (the average of the weights)\n", path);
}

}  // namespace

void train(const TrainOptions& asked) {
  const Device device = apply_machine_options(asked);
  std::optional<MemoryTrace> trace;
  if (!asked.memory_trace.empty()) trace.emplace(asked, device);
  const size_t resident_before = resident_bytes();
  const Datasets data = place_data(load_data(asked), device);
  const TrainOptions options =
      graphs_off_if_traced(with_micro_batch_chosen(asked, data, device), device);
  const Batches batches = options.batches(data.train.size());
  warn_about_batch_norm(options, batches);
  // A place that cannot be written to is an error now, not after the training.
  if (!options.save.empty()) check_writable(options.save);
  if (!options.save.empty() && options.ema) check_writable(average_path(options.save));
  if (!options.profile.empty()) check_writable(options.profile);

  Training training = make_training(options, batches, data.train, device);
  if (training.batches().micro < batches.micro)
    fmt::print("out of memory: {} becomes {}\n", batches.describe(), training.batches().describe());
  load_initial_weights(options, training);
  const int64_t steps = total_steps(options, batches, data.train.size());
  TrainingLoop loop(options, data.train, training);
  loop.resume();
  const InterruptScope interrupts;
  TrainLog log(options, data, training, steps, resident_before);
  const Window& window = training.window();
  const int64_t steps_before = window.steps();
  const std::unique_ptr<Profile> profile = start_profile(options, device);
  loop.run(log, steps);
  log.finish(interrupted(), training.loader().waited_seconds());
  if (trace) {
    trace->write(training.batches());
    fmt::print("recorded the memory of {} windows: {}\n",
               std::min(window.steps(), options.memory_trace_windows), options.memory_trace);
  }

  const Usage peak = ledger(device).peak();
  if (window.steps() > 0) {
    const Score of_weights = score(training, data.test, device);
    log.score(of_weights, score_average(options, training, data.test, device));
  }
  if (profile) profile->stop();
  if (window.steps() > steps_before)
    print_memory_table(options, training.batches(), data, peak, device);
  log.summarize();
  if (!options.save.empty()) {
    save_weights(options.save, training.parameters());
    fmt::print("saved {}\n", options.save);
    save_average(options, training);
  }
  if (profile) report_profile(*profile, options, training);
}

}  // namespace accrue::app
