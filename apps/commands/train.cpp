#include "apps/commands/train.h"

#include "accumulate/ladder/machine_rates.h"
#include "apps/cli/about_run.h"
#include "apps/cli/averages.h"
#include "apps/cli/config.h"
#include "apps/cli/environment.h"
#include "apps/cli/interrupt.h"
#include "apps/cli/load_data.h"
#include "apps/cli/messages.h"
#include "apps/cli/output.h"
#include "apps/commands/memory_advice.h"
#include "apps/commands/memory_table.h"
#include "apps/commands/progress.h"
#include "apps/domains.h"
#include "data/atomic_file.h"
#include "train/memory_trace.h"
#include "train/process.h"
#include "train/profile_json.h"
#include "train/profile_report.h"
#include "train/run_log.h"

namespace accrue::app {
namespace {

// A place that cannot be written to is an error now, not after the training.
void check_outputs(const Options& options) {
  if (!options.save.empty()) check_writable(options.save);
  if (!options.save.empty() && options.ema) check_writable(average_path(options.save));
  check_output(options.profile);
}

// A replayed graph allocates nothing and runs no kernels that could be timed one by one.
void turn_graphs_off_if_recorded(Options& options, Device device) {
  if (device != Device::cuda || options.cuda_graphs == Graphs::off) return;
  if (!options.memory_trace.empty())
    say("--memory-trace: CUDA graphs are off, so that every allocation is seen\n");
  else if (!options.profile.empty())
    say("--profile: CUDA graphs are off, so that every kernel is timed\n");
  else return;
  options.cuda_graphs = Graphs::off;
}

// The files of --json and --log-dir, from which lines after the checkpoint are taken out.
void rewind_logs(const Options& options, int64_t windows) {
  std::vector<std::string> logs;
  if (!options.json.empty() && options.json != "-") logs.push_back(options.json);
  if (!options.log_dir.empty()) logs.push_back(options.log_dir + "/metrics.jsonl");
  for (const std::string& log : logs) {
    if (std::error_code ignored; std::filesystem::is_other(log, ignored)) continue;  // a pipe
    const int64_t logged = keep_logged_windows(log, windows);
    if (logged < windows)
      say_error("warning: {} has {} of the {} windows before the checkpoint\n", log, logged,
                windows);
  }
}

// Ctrl-C once, and twice. A run whose reader has gone, as that of `| head`, ends as by the first.
Stop asked_to_stop() {
  if (interrupted_twice()) return Stop::now;
  return interrupted() || is_reader_gone() ? Stop::after_window : Stop::no;
}

void save(const Options& options, Trainer& trainer) {
  if (options.save.empty()) return;
  trainer.save_weights(options.save);
  say("saved {}\n", options.save);
  if (!options.ema || trainer.training().window().steps() == 0) return;
  const std::string path = average_path(options.save);
  trainer.save_average(path);
  say("saved {} (the average of the weights)\n", path);
}

// On a machine whose memory is full the rates stay 0.
MachineRates rates_if_memory_suffices(Device device, DType dtype) {
  try {
    return ladder::measure_rates(device, dtype);
  } catch (const OutOfMemory&) {
    return {};
  }
}

void report_profile(const Profile& profile, const Options& options, Batches batches) {
  const MachineRates rates =
      rates_if_memory_suffices(profile.device(), compute_dtype(options.precision));
  say("\n{}", profile_table(profile, rates, terminal_columns()));
  write_output(options.profile, profile_trace(profile, rates, options.profile_windows,
                                              about_run(options, batches, profile.device())));
  say("recorded the time of {}: {}\n",
      counted(std::min(profile.steps(), options.profile_windows), "window"), options.profile);
}

// By which the run can be repeated, with outputs and checkpoints elsewhere.
std::string config_of(Options options) {
  std::vector<std::string> headings = headings_of_networks(options);
  for (const char* heading : {"Machine", "Batches", "Optimizer", "Loss scale", "Evaluation"})
    headings.emplace_back(heading);
  const Settings all = settings_of(options).in(headings).without({"keep-best"});
  Options defaults;
  const Settings usual = settings_of(defaults);
  // What only some data sets heed is written if it was given, or was said by weights.
  return to_toml(all.where([&](const Setting& setting) {
    const About& about = setting.about;
    return about.data.empty() || options.given.contains(about.name) ||
           setting.text() != usual.at(about.name).text();
  }));
}

// For TensorBoard: what a run is about, not where it is written.
std::vector<std::pair<std::string, std::string>> hyperparameters(Options options) {
  std::vector<std::pair<std::string, std::string>> values;
  for (const Setting& setting : settings_of(options))
    if (const std::string text = setting.text();
        setting.group != "Output" && setting.group != "Checkpoints" && !text.empty())
      values.emplace_back(setting.about.name, text);
  return values;
}

std::string summary(const Options& asked, const Progress& progress, Device device) {
  Options options = asked;
  nlohmann::ordered_json all{{"command", command_line()}};
  for (const Setting& setting : settings_of(options))
    if (const std::string text = setting.text(); setting.group != "Output" && !text.empty())
      all["settings"]["--" + setting.about.name] = text;
  all["environment"] = environment(device);
  all.update(progress.results());
  return all.dump();
}

// The recording of --memory-trace, if it is wanted. Where the run ends in an error, the file ends
// there, too.
class TraceFile {
 public:
  TraceFile(const Options& options, Device device) : path_(options.memory_trace), device_(device) {
    check_output(path_);
    if (!path_.empty())
      trace_.emplace(options.memory_trace_windows, options.steps_in(options.memory_trace_windows),
                     device, about_run(options, std::nullopt, device).dump());
  }
  ~TraceFile() {
    if (!trace_) return;
    try {
      write_output(path_, trace_->text());
      say_error("recorded the memory up to the error: {}\n", path_);
    } catch (const std::exception&) {
      // The error that is under way says more.
    }
  }
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  // Ends the recording.
  void write(const Options& options, const Training& training) {
    if (!trace_) return;
    write_output(path_, trace_->text(about_run(options, training.batches(), device_).dump()));
    trace_.reset();
    say("recorded the memory of {}: {}\n",
        counted(std::min(training.window().steps(), options.memory_trace_windows), "window"),
        path_);
  }

 private:
  const std::string path_;
  const Device device_;
  std::optional<MemoryTrace> trace_;
};

void load_weights(Trainer& trainer, const Options& options, const Dataset& data) {
  const std::string& path = options.init;
  const std::optional<OtherHead> head =
      trainer.load_weights(path, options.new_head ? NewHead::always : NewHead::of_other_size);
  if (head)
    say("{}: {} in {}, {} here: made new\n", head->name, counted_classes(head->classes_in_file),
        path, head->classes);
  else if (!options.classes_of_weights) say_whose_classes(options, data);
}

RunLog open_log(const Options& options, const TrainingOptions& asked, Trainer& trainer,
                size_t resident_before) {
  const auto lines = lines_to(options.json);
  return RunLog({.json = lines ? "" : options.json,
                 .json_lines = lines,
                 .directory = options.log_dir,
                 .hyperparameters = hyperparameters(options),
                 .descriptions = options.domains.of_model(options.model_name).descriptions(),
                 .histograms_every = options.log_histograms.value_or(0),
                 .continued = options.checkpoints.resume,
                 .resident_before = resident_before},
                asked, trainer.training());
}

void score(Trainer& trainer, const Dataset& test, Progress& progress, RunLog& log) {
  const Training& training = trainer.training();
  if (training.window().steps() == 0) {
    if (training.steps() > 0 && trainer.options().is_first_rank())
      say_error(
          "warning: the generator has not taken a step: its weights are as they began, and "
          "are not scored\n");
    return;
  }
  const Score of_weights = trainer.evaluate(test);
  const std::optional<Score> of_average = trainer.evaluate_average(test);
  progress.score(of_weights, of_average);
  log.score(of_weights, of_average);
}

}  // namespace

void train(const Options& given) {
  const Device device = apply_machine_options(given);
  TraceFile trace(given, device);
  const size_t resident_before = resident_bytes();
  Datasets loaded = load_data(given);
  const auto watch = program_domains()[given.domains.number_of_model(given.model_name)].watch;
  const Dataset held_out = watch ? loaded.test : Dataset{};  // on the cpu, for samples
  const Datasets data = place_data(std::move(loaded), device);
  Options options = with_micro_batch_chosen(given, data, device);
  turn_graphs_off_if_recorded(options, device);
  const TrainingOptions asked = options.training(data.train);
  const bool is_first = asked.is_first_rank();
  if (is_first) check_outputs(options);

  Trainer trainer(asked, data.train, device, data.test);
  const Training& training = trainer.training();
  warn_about_batch_norm(options, training, asked.batches);
  if (training.batches().micro < asked.batches.micro)
    say("out of memory: {} becomes {}\n", asked.batches.describe(), training.batches().describe());
  Progress progress(options, trainer, resident_before);
  if (!trainer.resume(progress) && !options.init.empty())
    load_weights(trainer, options, data.train);
  if (options.checkpoints.resume) rewind_logs(options, trainer.windows());
  RunLog log = open_log(options, asked, trainer, resident_before);
  if (!options.log_dir.empty())
    write_text_atomically(options.log_dir + "/config.toml", config_of(given));
  progress.start(data);

  const Window& window = trainer.training().window();
  const int64_t steps_before = window.steps();
  const InterruptScope interrupts(is_first ? Answers::yes : Answers::no);
  const auto profile =
      options.profile.empty()
          ? nullptr
          : std::make_unique<Profile>(device, options.steps_in(options.profile_windows));
  std::vector<Observer*> all{&progress, &log};
  std::unique_ptr<Watcher> watcher;
  if (watch && is_first) watcher = watch(options, trainer, log, held_out);
  if (watcher) all.push_back(watcher.get());
  Observers observers(all);
  try {
    trainer.run(observers, asked_to_stop);
  } catch (const Stopped& stopped) {
    fail("interrupted twice: {}", stopped.what());
  } catch (const Divergence& divergence) {
    fail("{}\ntry: a lower --lr, or --clip-norm", divergence.what());
  }
  if (is_reader_gone() && !trainer.is_finished())
    say_error("warning: the reader of the output has gone: the run ends after a whole window\n");
  progress.finish(!trainer.is_finished(), trainer.training().loader().waited_seconds());
  save(options, trainer);  // before anything else that may fail
  trace.write(options, training);

  const Usage peak = ledger(device).peak();
  score(trainer, data.test, progress, log);
  if (profile) profile->stop();
  if (window.steps() > steps_before) {
    TrainingOptions ran = asked;
    ran.batches = training.batches();
    ran.share_unit = asked.batches.micro;
    print_memory_table(ran, options.measure_baseline ? Baseline::measured : Baseline::predicted,
                       data, peak, watcher ? watcher->held_on(device) : Usage{}, device);
  }
  log.finish(summary(given, progress, device));
  if (profile) report_profile(*profile, options, training.batches());
}

}  // namespace accrue::app
