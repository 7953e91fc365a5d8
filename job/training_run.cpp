#include "job/training_run.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "job/about_run.h"
#include "job/averages.h"
#include "job/load_data.h"
#include "job/machine.h"
#include "job/memory_advice.h"
#include "train/memory_trace.h"
#include "train/process.h"
#include "train/profile_json.h"

namespace accrue {
namespace {

// Checks the outputs now, so that an unwritable path fails before the training and not after it.
void check_outputs(const Request& request, const JobServices& services) {
  if (!request.save.empty()) check_writable(request.save);
  if (!request.save.empty() && request.ema) check_writable(average_path(request.save));
  services.check(request.profile);
}

// A replayed graph allocates nothing and runs no kernels that could be timed one by one.
void turn_graphs_off_if_recorded(Request& request, Device device, const Notices& notices) {
  if (device != Device::cuda || request.cuda_graphs == Graphs::off) return;
  if (!request.memory_trace.empty())
    notices.say("--memory-trace: CUDA graphs are off, so that every allocation is seen");
  else if (!request.profile.empty())
    notices.say("--profile: CUDA graphs are off, so that every kernel is timed");
  else return;
  request.cuda_graphs = Graphs::off;
}

// Removes the lines after the checkpoint from the files of --json and --log-dir.
void rewind_logs(const Request& request, bool json_is_file, int64_t windows,
                 const Notices& notices) {
  std::vector<std::string> logs;
  if (!request.json.empty() && json_is_file) logs.push_back(request.json);
  if (!request.log_dir.empty()) logs.push_back(request.log_dir + "/metrics.jsonl");
  for (const std::string& log : logs) {
    if (std::error_code ignored; std::filesystem::is_other(log, ignored)) continue;  // a pipe
    const int64_t logged = keep_logged_windows(log, windows);
    if (logged < windows)
      notices.warn("{} has {} of the {} windows before the checkpoint", log, logged, windows);
  }
}

void load_weights(Trainer& trainer, const Request& request, const Dataset& data,
                  const Notices& notices) {
  const std::string& path = request.init;
  const std::optional<OtherHead> head =
      trainer.load_weights(path, request.new_head ? NewHead::always : NewHead::of_other_size);
  if (head) {
    const std::string made_new =
        fmt::format("{}: {} in {}, {} here: made new", head->name,
                    counted_classes(head->classes_in_file), path, head->classes);
    if (request.new_head) notices.say("{}", made_new);
    else notices.warn("{}", made_new);
  } else if (!request.classes_of_weights) say_whose_classes(request, data, notices);
}

// A model that is a file begins with the file's values.
void begin_with_own_values(Trainer& trainer, const Request& request, const Dataset& data) {
  if (!is_model_file(request.model_name)) return;
  Training& training = trainer.training();
  const SampleSpec sample = request.sample_in(data);
  if (!request.domains.of_model(request.model_name).fill(sample, training.parameters())) return;
  training.window().restored();
}

// Reports which checkpoint a run resumes from.
class Resumption : public Observer {
 public:
  explicit Resumption(const Notices& notices) : notices_(notices) {}

  void on_damaged_checkpoint(const std::string& reason) override {
    notices_.warn("{}; looking at the checkpoint before it", reason);
  }
  void on_no_checkpoint(const std::filesystem::path& directory) override {
    notices_.say("no checkpoint in {}: starting from the beginning", directory.string());
  }
  void on_resume(const std::filesystem::path& checkpoint, const std::string& differences) override {
    if (!differences.empty())
      notices_.say(
          "the result will equal that of a run that never stopped within rounding, not bit "
          "for bit (except for BatchNorm and drop-micro-batch, which depend on the micro-batch):{}",
          differences);
    notices_.say("resumed from {}", checkpoint.string());
  }

 private:
  const Notices& notices_;
};

Usage without(Usage all, const Usage& part) {
  for (Category c : all_categories) all[c] -= std::min(all[c], part[c]);
  return all;
}

}  // namespace

std::string detail::about_batch_norm(const Request& request, const Training& training,
                                     Batches batches) {
  if (batches.accumulation_steps() == 1 || !training.trains_batch_norm() ||
      request.batch_norm == BatchNormOver::window)
    return {};
  const std::string other = request.domains.model(request.model_name).other_norm;
  const bool may_keep_window = training.game().players().size() == 1;
  return fmt::format(
      "BatchNorm normalises over each micro-batch of {}, not over the "
      "effective batch of {}: the result differs from one big batch. {} does not depend on "
      "the split{}.",
      counted(batches.micro, "sample"), batches.effective, other.empty() ? "GroupNorm" : other,
      may_keep_window ? ", nor does --batch-norm window"
                      : ", nor does --batch-norm window --batch-norm-by walk");
}

// The recording of --memory-trace, if requested. If an error ends the run early, the destructor
// writes the part that was recorded.
class TrainingRun::Recording {
 public:
  Recording(const Request& request, Device device, const Notices& notices,
            const JobServices& services)
      : request_(request), device_(device), notices_(notices), services_(services) {
    services.check(request.memory_trace);
    if (!request.memory_trace.empty())
      trace_.emplace(request.memory_trace_windows, request.steps_in(request.memory_trace_windows),
                     device, about_run(request, std::nullopt, device).dump());
  }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  ~Recording() {
    if (!trace_) return;
    try {
      services_.write(request_.memory_trace, trace_->text());
      notices_.say_at_error("recorded the memory up to the error: {}", request_.memory_trace);
    } catch (const std::exception&) {
      // The error that is being thrown matters more.
    }
  }

  void write(const Request& request, Batches batches, int64_t steps) {
    if (!trace_) return;
    services_.write(request.memory_trace,
                    trace_->text(about_run(request, batches, device_).dump()));
    trace_.reset();
    notices_.say("recorded the memory of {}: {}",
                 counted(std::min(steps, request.memory_trace_windows), "window"),
                 request.memory_trace);
  }

 private:
  const Request& request_;
  const Device device_;
  const Notices& notices_;
  const JobServices& services_;
  std::optional<MemoryTrace> trace_;
};

TrainingRun::TrainingRun(const Request& request, const Notices& notices,
                         const JobServices& services, const Usage& held_before)
    : given_(request),
      notices_(notices),
      services_(services),
      device_(apply_machine_settings(given_, notices)),
      recording_(std::make_unique<Recording>(given_, device_, notices, services)),
      resident_before_(resident_bytes()),
      request_(given_) {
  Datasets loaded = load_data(given_, DataUse::training, notices);
  const Dataset held_out =
      services.watch ? loaded.test : Dataset{};  // on the cpu, for the observer
  data_ = place_data(std::move(loaded), device_);
  request_ = with_micro_batch_chosen(given_, data_, device_, notices);
  turn_graphs_off_if_recorded(request_, device_, notices);
  asked_ = request_.training(data_.train);
  if (asked_.is_first_rank()) check_outputs(request_, services);

  trainer_ = std::make_unique<Trainer>(asked_, data_.train, device_, data_.test);
  const Training& training = trainer_->training();
  if (const std::string text = about_batch_norm(request_, training, asked_.batches); !text.empty())
    notices.warn("{}", text);
  if (training.batches().micro < asked_.batches.micro)
    notices.say("out of memory: {} becomes {}", asked_.batches.describe(),
                training.batches().describe());
  recorder_ = std::make_unique<RunRecorder>(request_, *trainer_, data_, resident_before_);
  Resumption resumption(notices);
  if (!trainer_->resume(resumption)) {
    if (request_.init.empty()) begin_with_own_values(*trainer_, request_, data_.train);
    else load_weights(*trainer_, request_, data_.train, notices);
  }
  const auto lines = services.lines_to(request_.json);
  if (request_.checkpoints.resume) rewind_logs(request_, !lines, trainer_->windows(), notices);
  log_ = std::make_unique<RunLog>(
      RunLogOptions{.json = lines ? "" : request_.json,
                    .json_lines = lines,
                    .directory = request_.log_dir,
                    .hyperparameters = hyperparameters(request_),
                    .descriptions = request_.domains.of_model(request_.model_name).descriptions(),
                    .histograms_every = request_.log_histograms.value_or(0),
                    .continued = request_.checkpoints.resume,
                    .resident_before = resident_before_},
      asked_, trainer_->training());
  if (!request_.log_dir.empty())
    write_text_atomically(request_.log_dir + "/config.toml", config_of(given_));
  if (services.watch && asked_.is_first_rank())
    watcher_ = services.watch(request_, *trainer_, *log_, held_out);
  own_ = without(ledger(Device::cpu).current(), held_before);
}

TrainingRun::~TrainingRun() = default;

void TrainingRun::run(const std::vector<RunObserver*>& observers, const StopRequest& stop,
                      WhenStopped then) {
  const Training& training = trainer_->training();
  const Window& window = training.window();
  const int64_t windows_before = trainer_->windows(), steps_before = window.steps();
  // Other objects may have freed or allocated memory since the constructor ran.
  const Usage held_by_others = without(ledger(Device::cpu).current(), own_);
  recorder_->begin();
  for (RunObserver* each : observers) each->on_begin();
  const auto profile =
      request_.profile.empty()
          ? nullptr
          : std::make_unique<Profile>(device_, request_.steps_in(request_.profile_windows));
  std::vector<Observer*> all{recorder_.get(), log_.get()};
  all.insert(all.end(), observers.begin(), observers.end());
  if (watcher_) all.push_back(watcher_.get());
  Observers told(std::move(all));
  try {
    trainer_->run(told, stop);
  } catch (const Divergence& divergence) {
    fail("{}\ntry: a lower --lr, or --clip-norm", divergence.what());
  }
  recorder_->end();
  for (RunObserver* each : observers) each->on_end();
  save();  // before anything else that may fail
  recording_->write(request_, training.batches(), window.steps());

  Usage peak = ledger(device_).peak();
  if (device_ == Device::cpu) peak = without(peak, held_by_others);
  const StopRequest stops_score = [&] {
    return then == WhenStopped::end && stop() != Stop::no ? Stop::now : Stop::no;
  };
  if (window.steps() > 0) score(observers, stops_score);
  else if (training.steps() > 0 && asked_.is_first_rank())
    notices_.warn("the generator has not taken a step: its weights are unchanged and not scored");
  if (profile) profile->stop();
  if (window.steps() > steps_before)
    measure(observers, {windows_before, trainer_->windows()}, peak);
  log_->finish(summary_of(given_, device_, recorder_->to_json()));
  if (profile) write_profile(*profile, observers);
  own_ = without(ledger(Device::cpu).current(), held_by_others);
}

void TrainingRun::save_model(const std::string& path) {
  if (!asked_.is_first_rank()) return;
  const Domain& domain = request_.domains.of_model(request_.model_name);
  const SampleSpec sample = request_.sample_in(data_.train);
  write_text_atomically(path, domain.own_file(sample, trainer_->training().parameters()).value());
}

void TrainingRun::save() {
  if (request_.save.empty()) return;
  const bool is_model = is_model_file(request_.save) && is_model_file(request_.model_name);
  if (is_model) save_model(request_.save);
  else trainer_->save_weights(request_.save);
  notices_.say("saved {}", request_.save);
  if (!request_.ema || trainer_->training().window().steps() == 0) return;
  const std::string path = average_path(request_.save);
  if (is_model) {
    trainer_->training().window().exchange_averages();
    save_model(path);
    trainer_->training().window().exchange_averages();
  } else {
    trainer_->save_average(path);
  }
  notices_.say("saved {} (the average of the weights)", path);
}

void TrainingRun::score(const std::vector<RunObserver*>& observers, const StopRequest& stop) {
  Score test;
  std::optional<Score> of_average;
  try {
    throw_if_stopped(stop);
    test = trainer_->evaluate(data_.test, stop);
    of_average = trainer_->evaluate_average(data_.test, stop);
  } catch (const Stopped&) {
    return;
  }
  recorder_->score(test, of_average);
  for (RunObserver* each : observers) each->on_test_score(test, of_average);
  log_->score(test, of_average);
}

void TrainingRun::measure(const std::vector<RunObserver*>& observers, const WindowRange& part,
                          const Usage& peak) {
  TrainingOptions ran = asked_;
  ran.batches = trainer_->training().batches();
  ran.share_unit = asked_.batches.micro;
  const ResidentBytes process{peak_resident_bytes(), resident_before_};
  peaks_ =
      peaks_of_run(ran, request_.measure_baseline ? Baseline::measured : Baseline::predicted, data_,
                   peak, watcher_ ? watcher_->held_on(device_) : Usage{}, part, device_, notices_);
  for (RunObserver* each : observers) each->on_peaks(peaks_, process);
}

void TrainingRun::write_profile(const Profile& profile,
                                const std::vector<RunObserver*>& observers) {
  const MachineRates rates = services_.rates(device_, compute_dtype(request_.precision));
  for (RunObserver* each : observers) each->on_profile(profile, rates);
  services_.write(
      request_.profile,
      profile_trace(profile, rates, request_.profile_windows,
                    about_run(request_, trainer_->training().batches(), profile.device())));
  notices_.say("recorded the time of {}: {}",
               counted(std::min(profile.steps(), request_.profile_windows), "window"),
               request_.profile);
}

}  // namespace accrue
