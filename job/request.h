#pragma once

#include <array>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "data/classes.h"
#include "train/domain.h"
#include "train/training_options.h"

namespace accrue {

namespace detail {

// The parts of a data set that are scored.
enum class ScoredSplit { both, train, test };
// How ranks on GPUs exchange what they add up: by NCCL where possible, or through the host's
// memory.
enum class RankExchange { automatic, host };
// --micro-batch auto: the largest micro-batch that fits (job/memory_advice.h).
inline constexpr int64_t auto_micro_batch = std::numeric_limits<int64_t>::min();
// The effective batch if the request does not set it.
inline constexpr int64_t default_effective_batch = 64;
// The model if the request does not name one.
inline constexpr const char* usual_model = "mlp";
// The inputs that a network was trained on, as the file of its weights says: pixels from 0 to 255,
// which were normalized, or numbers as they were given. Unknown if the file does not say it.
enum class Inputs { unknown, pixels, as_given };
// The key and the text that stand for Inputs::as_given in the file.
inline constexpr const char *inputs_key = "inputs", *inputs_as_given = "as given";

// The command line's names of enumerators that TrainingOptions does not use.
const std::map<std::string, InitScheme>& init_scheme_names();
const std::map<std::string, Device>& device_names();
const std::map<std::string, RankExchange>& rank_exchange_names();
const std::map<std::string, ScoredSplit>& split_names();

}  // namespace detail

// The settings of a job: a training, and the work around it. A plain value; each field has a name
// and a type in its row of table_of(), below.
struct Request : TrainingOptions {
  explicit Request(detail::Domains known) : domains(std::move(known)) {}

  detail::Domains domains;
  std::string model_name = detail::usual_model;  // a model of one of the domains
  // The value of --model if no domain has that model: the weights may know the name.
  struct OtherModel {
    std::string name, refusal;
  };
  OtherModel other_model;
  detail::NetworkOptions network;
  std::string data;               // empty: the model's own data set
  std::set<std::string> given{};  // the names of the settings that the user set
  // The file of weights that a command starts from (--init, or the checkpoint that it resumes), and
  // the classes that this file names.
  std::string weights;
  std::optional<detail::Classes> classes_of_weights;
  detail::Inputs inputs_of_weights = detail::Inputs::unknown;
  bool assumes_pixels = false;  // neither their file nor the user says how pixels were normalized
  std::optional<int64_t> class_count_of_weights;  // if it may exceed the data's
  // The samples that these weights were made for, as far as their file says it; else without
  // fields.
  detail::SampleSpec sample;
  int64_t micro_batch = 16;
  std::optional<int64_t> accum, effective_batch;

  detail::ScoredSplit split = detail::ScoredSplit::both;  // of eval
  std::optional<Device> device;                           // automatic: a GPU if there is one
  int64_t threads = 0;  // 0: one for each CPU that the program may use
  std::string memory_limit;
  int64_t rank_timeout_s = 30;
  detail::RankExchange rank_exchange = detail::RankExchange::automatic;
  std::string init, save, json, memory_trace;
  bool new_head = false;
  int64_t memory_trace_windows = 2;
  std::string profile;
  int64_t profile_windows = 2;
  std::string log_dir;
  std::optional<int64_t> log_histograms;  // in optimizer steps
  std::optional<int64_t> sample_every;    // in windows
  int64_t log_every = 100;
  bool measure_baseline = false;

  // Sets the setting of this name (settings_of(), below) as the program's option does. Throws
  // Error.
  void give(const std::string& setting, const std::string& text);

  // Takes a model that no domain has yet: a file, or else a name that the weights may know.
  void take_model(const std::string& name, const std::string& refusal);

  // The model's name for people.
  std::string model_title() const { return domains.of_model(model_name).title(model_name); }
  // The name of the data: --data, or else the model's own data set.
  std::string data_name() const;
  // The request for this data that a domain's loader takes. It refers to this object.
  detail::DataRequest data_request(detail::DataUse use) const;
  // The optimizer steps in the first `windows` windows: one in each, or with alternating networks
  // one for each turn of a network.
  int64_t steps_in(int64_t windows) const;
  // Throws Error if micro_batch, accum and effective_batch contradict each other, and for batches
  // larger than the data (`samples`).
  Batches batches_of(int64_t samples) const;
  // The model's objective for this data. Throws Error if the settings do not fit the data.
  ObjectivePtr objective_on(const Dataset& data) const;
  // The field of the data whose classes the model distinguishes, and these classes; null and empty
  // if the model answers with something else.
  const Field* told_apart(const Dataset& data) const;
  std::optional<detail::Classes> classes_in(const Dataset& data) const;
  // The samples that a model for this data must be made for.
  detail::SampleSpec sample_in(const Dataset& data) const;
  // The metadata for the weights of a model made for such samples, except the names of its classes.
  Metadata metadata_of(const detail::SampleSpec& sample_of_model) const;
  // Returns a function that makes such a model.
  ModelFactory factory(const detail::SampleSpec& sample_of_model) const;
  // The options of the requested training on this data, with the model, its batches and the run's
  // identity filled in. Throws as batches_of() and check_options() do.
  TrainingOptions training(const Dataset& data) const;
  // The same training with a micro-batch that is still to be chosen (plan_windows()).
  TrainingOptions to_plan(const Dataset& data) const;

 private:
  TrainingOptions training_with(Batches batches, const Dataset& data) const;
};

namespace detail {

// The headings of the settings of networks: the headings for model and data, and one for each
// domain's networks.
std::vector<std::string> headings_of_networks(const Request& o);
std::vector<std::string> names_of_models(const Request& o);
// The data sets that models learn from without --data: "digits; unet: shapes".
std::string default_data(const Request& o);

// True for a setting that affects the samples or the answers of a trained network.
inline bool acts_on_answers(const Setting& setting) {
  return setting.acts_in() == ActsIn::answers || setting.acts_in() == ActsIn::samples;
}
// The names that other programs use for a number of samples (SettingFacts::elsewhere).
inline std::map<std::string, std::string> called_batch(const std::string& samples) {
  return {{"batch", ", " + samples}, {"batch-size", ", " + samples}};
}
// An option for the trained weights that a command uses.
inline SettingFacts trained_weights(std::string help) {
  return {.name = "weights",
          .decides = Decides::no_result,
          .help = std::move(help),
          .takes = reads("FILE.safetensors"),
          .asked_by = AskedBy::most_runs,
          .elsewhere = {{"init", ""}}};
}

}  // namespace detail

// The program's settings by name, with their fields in a request. A command has some of them as
// options: --name (apps/cli/declare.h).
Settings settings_of(Request& o);
// The same table, for reading only.
inline Settings settings_of(const Request& o) {
  return settings_of(const_cast<Request&>(o)).read_only();
}

namespace detail {

// The table is beside the fields, so that everything about a setting except its effect is in one
// place. Only settings_of() uses it, so that it is compiled once.
inline Settings table_of(Request& o) {
  constexpr Decides result = Decides::result, no_result = Decides::no_result;
  Settings all_of_domains;  // the last domain may be a caller's
  for (const auto& domain : o.domains) all_of_domains.append_later(domain->settings(o));
  const auto of_domains = [&](const std::string& heading, const std::string& before = {}) {
    return all_of_domains.where([&](const Setting& setting) {
      return setting.group == heading && setting.about.before == before;
    });
  };
  Settings s;
  s.group("Model and data")
      .add(o.model_name, names_of_models(o),
           {.name = "model",
            .decides = result,
            .help = "Network to train, or the ONNX file of one, FILE.onnx",
            .saved = Saved::with_weights,
            .asked_by = AskedBy::most_runs})
      .add(o.network.width, {.name = "width",
                             .decides = result,
                             .help = "Factor on hidden sizes and channels",
                             .range = above_zero,
                             .saved = Saved::with_weights})
      .append(of_domains("Model and data", "data"))
      .add(o.data,
           {.name = "data",
            .decides = Decides::content,
            .help = "mnist, fashion, digits, shapes and strokes (built in), or a directory: of "
                    "images with a folder for each class, images/ and masks/, CIFAR-10's or IDX "
                    "files, or glyphs; or a table, FILE.csv",
            .takes = reads("NAME|DIR"),
            .unset = default_data(o),
            .acts_in = ActsIn::samples,
            .asked_by = AskedBy::most_runs})
      .append(of_domains("Model and data"))
      .append(of_domains("Model and data", "dropout"))
      .add(o.network.dropout, {.name = "dropout",
                               .decides = result,
                               .help = "Dropout before the last layer",
                               .range = {0, 0.999},
                               .rather = "g-dropout"})
      .add(o.network.init, init_scheme_names(),
           {.name = "init-scheme",
            .decides = no_result,
            .help = "Distribution of the initial weights (lecun is PyTorch's default)",
            .costs = Costs::nothing})
      .add(o.init,
           {.name = "init",
            .decides = no_result,
            .help =
                "Start from these weights instead; a run that resumes from a checkpoint does not "
                "read them",
            .takes = reads("FILE.safetensors"),
            .acts_in = ActsIn::answers,
            .asked_by = AskedBy::most_runs,
            .elsewhere = {{"weights", ""}}})
      .add_flag(
          o.new_head, true,
          {.name = "new-head",
           .decides = no_result,
           .help =
               "Make the last layer of --init new, for other classes; automatic, with a warning, "
               "if the number of classes differs and the weights do not know them all",
           .needs = "init"});
  for (const auto& domain : o.domains) s.append(of_domains(domain->networks_heading()));
  s.group("Machine")
      .add(o.device, device_names(),
           {.name = "device",
            .decides = no_result,
            .help = "Where to compute; auto: cuda where it can be used, else cpu",
            .unset = "auto",
            .acts_in = ActsIn::answers,
            .asked_by = AskedBy::most_runs,
            .elsewhere = {{"gpu", " cuda"}}})
      .add(o.threads, {.name = "threads",
                       .decides = no_result,
                       .help = "Threads; 0 or too many: one for each CPU that the program may use",
                       .range = {0, 1024},
                       .acts_in = ActsIn::answers})
      .add(o.memory_limit, {.name = "memory-limit",
                            .decides = no_result,
                            .help = "Refuse to use more, as a smaller card would",
                            .takes = "64MiB",
                            .acts_in = ActsIn::answers,
                            .costs = Costs::nothing,
                            .asked_by = AskedBy::most_runs});
  s.group("Batches")
      .add(o.micro_batch,
           {.name = "micro-batch",
            .decides = no_result,
            .help = "Samples in memory at a time; auto: as many as --memory-limit allows",
            .takes = "N|auto",
            .range = above_zero,
            .words = {{"auto", double(auto_micro_batch)}},
            .asked_by = AskedBy::most_runs,
            .elsewhere = called_batch("the samples in memory")})
      .add(o.accum,
           {.name = "accum",
            .decides = no_result,
            .help = "Micro-batches per optimizer step",
            .unset = "4",
            .range = above_zero,
            .elsewhere = {{"accumulation-steps", ""}, {"gradient-accumulation-steps", ""}}})
      .add(o.effective_batch,
           {.name = "effective-batch",
            .decides = result,
            .help =
                "Samples per optimizer step; --accum follows; the last micro-batch may be smaller",
            .range = above_zero,
            .asked_by = AskedBy::most_runs,
            .elsewhere = called_batch("the samples of a step")})
      .append(of_domains("Batches"));
  s.append(settings_of(static_cast<TrainingOptions&>(o)));
  s.group("Several processes")
      .add(o.rank_timeout_s, {.name = "rank-timeout",
                              .decides = no_result,
                              .help = "End all ranks if one gives no sign of life for this long",
                              .takes = "SECONDS",
                              .range = {1, 86400},
                              .acts_on = ActsOn::several_processes,
                              .acts_in = ActsIn::scores,
                              .costs = Costs::nothing})
      .add(o.rank_exchange, rank_exchange_names(),
           {.name = "rank-exchange",
            .decides = no_result,
            .help = "How GPUs exchange what they add up; auto: by NCCL where it is built in and "
                    "each rank has a GPU of its own, else through the host",
            .acts_on = ActsOn::several_processes});
  s.group("Output")
      .add(o.save, {.name = "save",
                    .decides = no_result,
                    .help = "Write the weights at the end; PyTorch's names and layout",
                    .takes = writes("FILE.safetensors"),
                    .written_by = WrittenBy::all_ranks,
                    .asked_by = AskedBy::most_runs})
      .add(o.json, {"json", no_result, "Write a JSON line per optimizer step, and the test score",
                    writes("FILE", Path::text)})
      .add(o.log_dir,
           {.name = "log-dir",
            .decides = no_result,
            .help = "Keep the run's log there: TensorBoard's files, metrics.jsonl, summary.json",
            .takes = writes("DIR", Path::directory),
            .asked_by = AskedBy::most_runs})
      .add(o.log_histograms,
           {.name = "log-histograms",
            .decides = no_result,
            .help = "Also log histograms of the gradients, every STEPS optimizer steps",
            .takes = "STEPS",
            .range = above_zero,
            .needs = "log-dir",
            .costs = Costs::nothing})
      .add(o.sample_every,
           {.name = "sample-every",
            .decides = no_result,
            .help = "Every WINDOWS windows: a language model writes a short text; a font's "
                    "generator draws characters that are held out, as a sheet in --log-dir",
            .takes = "WINDOWS",
            .range = above_zero,
            .costs = Costs::nothing})
      .append(of_domains("Output"))
      .add(o.memory_trace,
           {"memory-trace", no_result,
            "Record every allocation of the first windows, as Chrome's trace events",
            writes("FILE.json", Path::text)})
      .add(o.memory_trace_windows, {.name = "memory-trace-windows",
                                    .decides = no_result,
                                    .help = "Number of windows to record",
                                    .range = above_zero,
                                    .needs = "memory-trace",
                                    .costs = Costs::nothing})
      .add(o.profile,
           {"profile", no_result,
            "Time every kernel: a table by phase and op, and there the first windows as Chrome's "
            "trace events; without CUDA graphs",
            writes("FILE.json", Path::text)})
      .add(
          o.profile_windows,
          {.name = "profile-windows",
           .decides = no_result,
           .help = "Windows to record events of, at most 100000 events; the table sums all windows",
           .range = above_zero,
           .needs = "profile",
           .costs = Costs::nothing})
      .add(o.log_every, {.name = "log-every",
                         .decides = no_result,
                         .help = "Optimizer steps between two lines in a pipe",
                         .range = above_zero,
                         .costs = Costs::nothing})
      .add_flag(
          o.measure_baseline, true,
          {.name = "measure-baseline",
           .decides = no_result,
           .help = "Also run the same effective batch without accumulation and measure its memory",
           .costs = Costs::nothing});
  s.act_with("model", o.domains.models_that_heed());
  s.also_take(
      "model",
      [&o](const std::string& name, const std::string& refusal) { o.take_model(name, refusal); },
      [&o] { return o.model_name; });
  return s;
}

// The settings that differ from their defaults, as arguments of a command that has them.
std::vector<std::string> arguments_of(const Request& request);

}  // namespace detail

}  // namespace accrue
