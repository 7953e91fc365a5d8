#include "apps/commands/train.h"

#include "accumulate/ladder/machine_rates.h"
#include "apps/cli/config.h"
#include "apps/cli/interrupt.h"
#include "apps/cli/messages.h"
#include "apps/cli/output.h"
#include "apps/commands/memory_advice.h"
#include "apps/commands/memory_table.h"
#include "apps/commands/progress.h"
#include "apps/domains.h"
#include "data/atomic_file.h"
#include "job/about_run.h"
#include "job/averages.h"
#include "job/config.h"
#include "job/environment.h"
#include "job/load_data.h"
#include "job/machine.h"
#include "train/memory_trace.h"
#include "train/process.h"
#include "train/profile_json.h"
#include "train/profile_report.h"
#include "train/run_log.h"

namespace accrue::app {
namespace {

// A place that cannot be written to is an error now, not after the training.
void check_outputs(const Request& options) {
  if (!options.save.empty()) check_writable(options.save);
  if (!options.save.empty() && options.ema) check_writable(average_path(options.save));
  check_output(options.profile);
}

// A replayed graph allocates nothing and runs no kernels that could be timed one by one.
void turn_graphs_off_if_recorded(Request& options, Device device) {
  if (device != Device::cuda || options.cuda_graphs == Graphs::off) return;
  if (!options.memory_trace.empty())
    say("--memory-trace: CUDA graphs are off, so that every allocation is seen\n");
  else if (!options.profile.empty())
    say("--profile: CUDA graphs are off, so that every kernel is timed\n");
  else return;
  options.cuda_graphs = Graphs::off;
}

// The files of --json and --log-dir, from which lines after the checkpoint are taken out.
void rewind_logs(const Request& options, int64_t windows) {
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

void save(const Request& options, Trainer& trainer) {
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

void report_profile(const Profile& profile, const Request& options, Batches batches) {
  const MachineRates rates =
      rates_if_memory_suffices(profile.device(), compute_dtype(options.precision));
  say("\n{}", profile_table(profile, rates, terminal_columns()));
  write_output(options.profile, profile_trace(profile, rates, options.profile_windows,
                                              about_run(options, batches, profile.device())));
  say("recorded the time of {}: {}\n",
      counted(std::min(profile.steps(), options.profile_windows), "window"), options.profile);
}

// By which the run can be repeated, with outputs and checkpoints elsewhere. What nobody asked for
// is needed if it is not usual (as for `font train`), unless the weights that the run begins with
// say it.
std::string config_of(const Request& options) {
  std::vector<std::string> headings = headings_of_networks(options);
  for (const char* heading : {"Machine", "Batches", "Optimizer", "Loss scale", "Evaluation"})
    headings.emplace_back(heading);
  const Settings all = settings_of(options).in(headings).without({"keep-best"});
  const Request defaults(options.domains.fresh());
  const Settings usual = settings_of(defaults);
  const auto is_given = [&](const Setting& setting) {
    return options.given.contains(setting.about.name);
  };
  const auto is_unusual = [&](const Setting& setting) {
    return setting.text() != usual.at(setting.about.name).text();
  };
  const bool has_weights = !options.init.empty() || !options.domains.implied_model().empty();
  const auto is_of_weights = [&](const Setting& setting) {
    const std::string& name = setting.about.name;
    return has_weights &&
           (setting.about.saved != Saved::no || name == "image-size" || name == "crop");
  };
  // What only some data sets heed says nothing of others.
  const auto is_shown = [&](const Setting& setting) {
    return setting.about.data.empty() || is_given(setting) || is_unusual(setting);
  };
  return to_toml(all.where(is_shown), [&](const Setting& setting) {
    return is_given(setting) || (is_unusual(setting) && !is_of_weights(setting));
  });
}

// For TensorBoard: what a run is about, not where it is written.
std::vector<std::pair<std::string, std::string>> hyperparameters(const Request& options) {
  std::vector<std::pair<std::string, std::string>> values;
  for (const Setting& setting : settings_of(options))
    if (const std::string text = setting.text();
        setting.group != "Output" && setting.group != "Checkpoints" && !text.empty())
      values.emplace_back(setting.about.name, text);
  return values;
}

std::string summary(const Request& options, const Progress& progress, Device device) {
  nlohmann::ordered_json all{{"command", command_line()}};
  for (const Setting& setting : settings_of(options))
    if (const std::string text = setting.text(); setting.group != "Output" && !text.empty())
      all["settings"]["--" + setting.about.name] = text;
  all["environment"] = environment(device);
  all.update(progress.results());
  return all.dump();
}

void load_weights(Trainer& trainer, const Request& options, const Dataset& data) {
  const std::string& path = options.init;
  const std::optional<OtherHead> head =
      trainer.load_weights(path, options.new_head ? NewHead::always : NewHead::of_other_size);
  if (head) {
    const std::string made_new =
        fmt::format("{}: {} in {}, {} here: made new\n", head->name,
                    counted_classes(head->classes_in_file), path, head->classes);
    if (options.new_head) say("{}", made_new);
    else say_error("warning: {}", made_new);
  } else if (!options.classes_of_weights) say_whose_classes(options, data, spoken());
}

}  // namespace

// The recording of --memory-trace, if there is one. What ends before it does leaves a part of it.
class TrainingRun::Recording {
 public:
  Recording(const Request& options, Device device) : options_(options), device_(device) {
    check_output(options.memory_trace);
    if (!options.memory_trace.empty())
      trace_.emplace(options.memory_trace_windows, options.steps_in(options.memory_trace_windows),
                     device, about_run(options, std::nullopt, device).dump());
  }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  ~Recording() {
    if (!trace_) return;
    try {
      write_output(options_.memory_trace, trace_->text());
      say_error("recorded the memory up to the error: {}\n", options_.memory_trace);
    } catch (const std::exception&) {
      // The error that is under way says more.
    }
  }

  void write(const Request& options, Batches batches, int64_t steps) {
    if (!trace_) return;
    write_output(options.memory_trace, trace_->text(about_run(options, batches, device_).dump()));
    trace_.reset();
    say("recorded the memory of {}: {}\n",
        counted(std::min(steps, options.memory_trace_windows), "window"), options.memory_trace);
  }

 private:
  const Request& options_;
  const Device device_;
  std::optional<MemoryTrace> trace_;
};

static Usage without(Usage all, const Usage& part) {
  for (Category c : all_categories) all[c] -= std::min(all[c], part[c]);
  return all;
}

TrainingRun::TrainingRun(const Request& given, const Usage& held_before)
    : given_(given),
      device_(apply_machine_settings(given_, spoken())),
      recording_(std::make_unique<Recording>(given_, device_)),
      resident_before_(resident_bytes()),
      options_(given_) {
  Datasets loaded = load_data(given_, DataUse::training, spoken());
  const size_t domain = given_.domains.number_of_model(given_.model_name);
  const auto& own = program_domains();  // beside which there may be a caller's
  const auto watch = domain < own.size() ? own[domain].watch : nullptr;
  const Dataset held_out = watch ? loaded.test : Dataset{};  // on the cpu, for samples
  data_ = place_data(std::move(loaded), device_);
  options_ = with_micro_batch_chosen(given_, data_, device_);
  turn_graphs_off_if_recorded(options_, device_);
  asked_ = options_.training(data_.train);
  if (asked_.is_first_rank()) check_outputs(options_);

  trainer_ = std::make_unique<Trainer>(asked_, data_.train, device_, data_.test);
  const Training& training = trainer_->training();
  warn_about_batch_norm(options_, training, asked_.batches);
  if (training.batches().micro < asked_.batches.micro)
    say("out of memory: {} becomes {}\n", asked_.batches.describe(), training.batches().describe());
  progress_ = std::make_unique<Progress>(options_, *trainer_, resident_before_);
  if (!trainer_->resume(*progress_) && !options_.init.empty())
    load_weights(*trainer_, options_, data_.train);
  if (options_.checkpoints.resume) rewind_logs(options_, trainer_->windows());
  const auto lines = lines_to(options_.json);
  log_ = std::make_unique<RunLog>(
      RunLogOptions{.json = lines ? "" : options_.json,
                    .json_lines = lines,
                    .directory = options_.log_dir,
                    .hyperparameters = hyperparameters(options_),
                    .descriptions = options_.domains.of_model(options_.model_name).descriptions(),
                    .histograms_every = options_.log_histograms.value_or(0),
                    .continued = options_.checkpoints.resume,
                    .resident_before = resident_before_},
      asked_, trainer_->training());
  if (!options_.log_dir.empty())
    write_text_atomically(options_.log_dir + "/config.toml", config_of(given_));
  if (watch && asked_.is_first_rank()) watcher_ = watch(options_, *trainer_, *log_, held_out);
  own_ = without(ledger(Device::cpu).current(), held_before);
}

TrainingRun::~TrainingRun() = default;

void TrainingRun::run(const StopRequest& stop, Observer* beside, WhenStopped then) {
  const Training& training = trainer_->training();
  const Window& window = training.window();
  const int64_t windows_before = trainer_->windows();
  const int64_t steps_before = window.steps();
  // Others may have let go of memory since this was made, or taken more.
  const Usage held_by_others = without(ledger(Device::cpu).current(), own_);
  progress_->start(data_);
  const auto profile =
      options_.profile.empty()
          ? nullptr
          : std::make_unique<Profile>(device_, options_.steps_in(options_.profile_windows));
  std::vector<Observer*> all{progress_.get(), log_.get()};
  if (watcher_) all.push_back(watcher_.get());
  if (beside) all.push_back(beside);
  Observers observers(all);
  try {
    trainer_->run(observers, stop);
  } catch (const Divergence& divergence) {
    fail("{}\ntry: a lower --lr, or --clip-norm", divergence.what());
  }
  if (is_reader_gone() && !trainer_->is_finished())
    say_error("warning: the reader of the output has gone: the run ends after a whole window\n");
  progress_->finish(!trainer_->is_finished(), trainer_->training().loader().waited_seconds());
  save(options_, *trainer_);  // before anything else that may fail
  recording_->write(options_, training.batches(), window.steps());

  Usage peak = ledger(device_).peak();
  if (device_ == Device::cpu) peak = without(peak, held_by_others);
  const StopRequest stops_score = [&] {
    return then == WhenStopped::end && stop() != Stop::no ? Stop::now : Stop::no;
  };
  score_.reset();
  if (window.steps() > 0) score(stops_score);
  else if (training.steps() > 0 && asked_.is_first_rank())
    say_error(
        "warning: the generator has not taken a step: its weights are as they began, and "
        "are not scored\n");
  if (profile) profile->stop();
  if (window.steps() > steps_before) {
    TrainingOptions ran = asked_;
    ran.batches = training.batches();
    ran.share_unit = asked_.batches.micro;
    const Resident process{peak_resident_bytes(), resident_before_};
    peaks_ = peaks_of_run(ran, options_.measure_baseline ? Baseline::measured : Baseline::predicted,
                          data_, peak, watcher_ ? watcher_->held_on(device_) : Usage{},
                          {windows_before, trainer_->windows()}, device_);
    print_memory_table(peaks_, process, ran.batches, device_);
  }
  log_->finish(summary(given_, *progress_, device_));
  if (profile) report_profile(*profile, options_, training.batches());
  own_ = without(ledger(Device::cpu).current(), held_by_others);
}

void TrainingRun::score(const StopRequest& stop) {
  std::optional<Score> of_average;
  try {
    throw_if_stopped(stop);
    score_ = trainer_->evaluate(data_.test, stop);
    of_average = trainer_->evaluate_average(data_.test, stop);
  } catch (const Stopped&) {
    score_.reset();
    return;
  }
  progress_->score(*score_, of_average);
  log_->score(*score_, of_average);
}

void train(const Request& options) {
  TrainingRun run(options);
  const bool is_first = run.trainer().options().is_first_rank();
  const InterruptScope interrupts(is_first ? Answers::yes : Answers::no);
  try {
    run.run(asked_to_stop);
  } catch (const Stopped& stopped) {
    fail("interrupted twice: {}", stopped.what());
  }
}

}  // namespace accrue::app
