#include "apps/cli/options.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <map>

#include "apps/cli/environment.h"
#include "core/cpus.h"
#include "core/cuda.h"
#include "kernels/parallel.h"

namespace accrue::app {
namespace {

template <class Enum>
CLI::Option* add_choice(CLI::App& command, const std::string& name, Enum& value,
                        const std::map<std::string, Enum>& choices, const std::string& help) {
  std::string names;
  for (const auto& [text, choice] : choices) names += (names.empty() ? "" : "|") + text;
  return command.add_option(name, value, help)
      ->transform(CLI::CheckedTransformer(choices, CLI::ignore_case).description(""))
      ->type_name(names)
      ->default_function([&value, choices] { return name_in(choices, value); })
      ->capture_default_str();
}

template <class Accepts>
CLI::Validator number_that(Accepts&& accepts, std::string expected, std::string type) {
  const auto error = [=](const std::string& text) {
    double value = 0;
    const char* end = text.data() + text.size();
    const auto [stop, problem] = std::from_chars(text.data(), end, value);
    const bool fine = problem == std::errc() && stop == end && accepts(value);
    return fine ? "" : fmt::format("found {}, expected {}", text, expected);
  };
  return CLI::Validator(error, std::move(type));
}

// Unlike CLI::Range it refuses NaN.
CLI::Validator within(double low, double high) {
  const std::string range = fmt::format("{} to {}", low, high);
  return number_that([=](double x) { return low <= x && x <= high; }, range, range);
}

}  // namespace

CLI::Validator positive() {
  return number_that([](double x) { return x > 0; }, "a number above 0", "POSITIVE");
}

CLI::Validator not_negative() {
  return number_that([](double x) { return x >= 0; }, "0 or more", "NONNEGATIVE");
}

const std::map<std::string, InitScheme>& init_scheme_names() {
  static const std::map<std::string, InitScheme> names{{"kaiming", InitScheme::kaiming},
                                                       {"xavier", InitScheme::xavier},
                                                       {"lecun", InitScheme::lecun},
                                                       {"normal", InitScheme::normal}};
  return names;
}

const std::map<std::string, DeviceChoice>& device_names() {
  static const std::map<std::string, DeviceChoice> names{
      {"auto", DeviceChoice::automatic}, {"cpu", DeviceChoice::cpu}, {"cuda", DeviceChoice::cuda}};
  return names;
}

const std::map<std::string, Graphs>& graphs_names() {
  static const std::map<std::string, Graphs> names{{"on", Graphs::on}, {"off", Graphs::off}};
  return names;
}

std::string Options::data_name() const {
  if (!data.empty()) return data;
  return task_of(network.kind) == Task::segmentation ? "shapes" : "digits";
}

Batches Options::batches_of(int64_t samples) const {
  check(micro_batch != auto_micro_batch,
        "--micro-batch auto is chosen by train and bench train: expected a number here");
  check(micro_batch > 0, "--micro-batch is {}: expected 1 or more samples", micro_batch);
  check(!accum || *accum > 0, "--accum is {}: expected 1 or more micro-batches", accum.value_or(0));
  check(!effective_batch || *effective_batch > 0,
        "--effective-batch is {}: expected 1 or more samples", effective_batch.value_or(0));
  check(micro_batch <= samples, "--micro-batch {} is larger than the data: {} has {} samples",
        micro_batch, data_name(), samples);
  // Before it is multiplied.
  check(!accum || *accum <= samples / micro_batch,
        "--micro-batch {} x --accum {} is larger than the data: {} has {} samples", micro_batch,
        accum.value_or(0), data_name(), samples);
  if (accum && effective_batch)
    check(*accum * micro_batch == *effective_batch,
          "--micro-batch {} x --accum {} is {}, but --effective-batch is {}; leave out --accum and "
          "it is derived",
          micro_batch, *accum, *accum * micro_batch, *effective_batch);
  const int64_t effective = effective_batch ? *effective_batch : micro_batch * accum.value_or(4);
  check(effective <= samples, "an effective batch of {} is larger than the data: {} has {} samples",
        effective, data_name(), samples);
  return {std::min(micro_batch, effective), effective};
}

TrainingOptions Options::training(int64_t samples) const {
  TrainingOptions result = training_with(batches_of(samples));
  check_options(result);
  return result;
}

TrainingOptions Options::to_plan(int64_t samples) const {
  if (micro_batch != auto_micro_batch) return training_with(batches_of(samples));
  check(!accum,
        "--micro-batch auto derives the number of micro-batches: expected --effective-batch "
        "instead of --accum {}",
        accum.value_or(0));
  Options smallest = *this;
  smallest.effective_batch = effective_batch.value_or(default_effective_batch);
  smallest.micro_batch = 1;
  return training_with(smallest.batches_of(samples));
}

TrainingOptions Options::training_with(Batches chosen) const {
  TrainingOptions result = *this;
  result.model = model_factory(network);
  result.batches = chosen;
  result.identity = {{"model", name(network.kind)},
                     {"width", fmt::format("{}", network.width)},
                     {"dropout", fmt::format("{}", network.dropout)},
                     {"init-scheme", name_in(init_scheme_names(), network.init)},
                     {"init", init.empty() ? "none" : init}};
  result.checkpoints.origin = {{"command", command_line()}};
  return result;
}

void add_model_options(CLI::App& command, Options& o) {
  add_choice(command, "--model", o.network.kind, model_names(), "Network to train")
      ->group("Model and data");
  command.add_option("--width", o.network.width, "Factor on hidden sizes and channels")
      ->check(positive())
      ->capture_default_str()
      ->group("Model and data");
  add_choice(command, "--precision", o.precision, precision_names(),
             "Of activations and products; sums, parameters and their gradients stay in float32")
      ->group("Model and data");
  command
      .add_option("--data", o.data,
                  "mnist, fashion, digits and shapes (both built in), or a directory of IDX files")
      ->type_name("NAME|DIR")
      ->default_str("digits; for unet shapes")
      ->group("Model and data");
  command.add_option("--data-dir", o.data_dir, "Where mnist and fashion are looked for first")
      ->type_name("DIR")
      ->group("Model and data");
  command.add_option("--dropout", o.network.dropout, "Dropout before the last layer")
      ->check(within(0, 0.999))
      ->capture_default_str()
      ->group("Model and data");
  add_choice(command, "--init-scheme", o.network.init, init_scheme_names(),
             "Distribution of the initial weights (lecun is PyTorch's default)")
      ->group("Model and data");
  command.add_option("--init", o.init, "Start from these weights instead")
      ->type_name("FILE.safetensors")
      ->group("Model and data");
  command.add_option("--seed", o.seed, "Seed of weights, order and dropout")
      ->capture_default_str()
      ->group("Model and data");
  add_device_options(command, o);
  add_choice(command, "--cuda-graphs", o.cuda_graphs, graphs_names(),
             "Record micro-steps and steps once and replay them; the same bits either way")
      ->group("Machine");
  command
      .add_option("--memory-limit", o.memory_limit, "Refuse to use more, as a smaller card would")
      ->type_name("64MiB")
      ->group("Machine");
}

void add_device_options(CLI::App& command, Options& o) {
  add_choice(command, "--device", o.device, device_names(),
             "Where to compute; auto: cuda where it can be used, else cpu")
      ->group("Machine");
  command
      .add_option("--threads", o.threads,
                  "Threads; 0 or too many: one for each CPU that the program may use")
      ->check(within(0, 1024))
      ->capture_default_str()
      ->group("Machine");
}

void add_batch_options(CLI::App& command, Options& o) {
  const std::string group = "Batches";
  command
      .add_option("--micro-batch", o.micro_batch,
                  "Samples in memory at a time; auto: as many as --memory-limit allows")
      ->transform(CLI::Transformer(std::map<std::string, int64_t>{{"auto", auto_micro_batch}},
                                   CLI::ignore_case)
                      .description(""))
      ->type_name("N|auto")
      ->default_function([&o] {
        return o.micro_batch == auto_micro_batch ? "auto" : std::to_string(o.micro_batch);
      })
      ->capture_default_str()
      ->group(group);
  command.add_option("--accum", o.accum, "Micro-batches per optimizer step (default 4)")
      ->group(group);
  command
      .add_option("--effective-batch", o.effective_batch,
                  "Samples per optimizer step; --accum is derived, the remainder exact")
      ->group(group);
  add_strategy_option(command, o);
  add_recompute_option(command, o);
  command
      .add_option("--epochs", o.epochs, "Passes over the training data, skipped windows included")
      ->check(within(0, 1e9))
      ->capture_default_str()
      ->group(group);
  command.add_option("--steps", o.steps, "Stop before that, after this many optimizer steps taken")
      ->check(not_negative())
      ->group(group);
  command.add_flag("!--no-shuffle", o.shuffle, "Take the samples in the order of the file")
      ->group(group);
}

void add_on_oom_option(CLI::App& command, Options& o) {
  add_choice(command, "--on-oom", o.on_oom, on_oom_names(),
             "split: a window that does not fit is run again with half the micro-batch")
      ->group("Batches");
}

void add_strategy_option(CLI::App& command, Options& o) {
  add_choice(command, "--strategy", o.strategy, strategy_names(),
             "fused: backward accumulates; separate: a second buffer and an adding pass; moments: "
             "gradients go into Adam's moments one by one (AdamA, another optimizer); "
             "step-in-backward: parameters are stepped one by one, without accumulation")
      ->group("Batches");
}

void add_recompute_option(CLI::App& command, Options& o) {
  add_choice(command, "--recompute", o.recompute, recompute_names(),
             "Keep fewer activations and compute them again in backward: of the model's n blocks, "
             "keep about sqrt(n), or the input of each (all)")
      ->group("Batches");
}

void add_optimizer_kind_option(CLI::App& command, Options& o) {
  add_choice(command, "--optimizer", o.optimizer, optimizer_names(), "Update rule")
      ->group("Optimizer");
}

void add_optimizer_options(CLI::App& command, Options& o) {
  const std::string group = "Optimizer";
  add_optimizer_kind_option(command, o);
  const CLI::Validator a_number = number_that([](double x) { return x == x; }, "a number", "");
  const auto number = [&](const std::string& name, double& value, const std::string& help) {
    command.add_option(name, value, help)->check(a_number)->capture_default_str()->group(group);
  };
  const auto count = [&](const std::string& name, int64_t& value, const std::string& help) {
    command.add_option(name, value, help)->capture_default_str()->group(group);
  };
  number("--lr", o.schedule.base, "Learning rate");
  number("--beta1", o.beta1, "Adam: decay of the first moment; lion: share of the moment");
  command.add_option("--beta2", o.beta2, "Adam: decay of the second moment; lion: of the moment")
      ->check(a_number)
      ->default_str("0.999; for lion 0.99")
      ->group(group);
  command
      .add_option("--beta2-half-life", o.beta2_half_life,
                  "Adam: the same by the samples after which half of it is gone")
      ->type_name("SAMPLES")
      ->excludes("--beta2")
      ->group(group);
  number("--eps", o.eps, "Adam: added to the root of the second moment");
  command.add_option("--weight-decay", o.weight_decay, "Default 0; for adamw 0.01")->group(group);
  number("--momentum", o.momentum, "SGD momentum");
  command.add_flag("--nesterov", o.nesterov, "SGD: Nesterov's momentum")->group(group);
  command.add_option("--clip-norm", o.clip_norm, "Largest norm of the window's gradient")
      ->group(group);
  using Schedule = ScheduleOptions::Kind;
  add_choice<Schedule>(command, "--schedule", o.schedule.kind,
                       {{"constant", Schedule::constant},
                        {"step", Schedule::step},
                        {"cosine", Schedule::cosine},
                        {"one-cycle", Schedule::one_cycle},
                        {"plateau", Schedule::plateau}},
                       "Learning rate over the optimizer steps")
      ->group(group);
  count("--warmup-steps", o.schedule.warmup_steps, "Linear warm-up, for every schedule");
  count("--lr-every", o.schedule.every, "step: optimizer steps between two reductions");
  number("--lr-gamma", o.schedule.gamma, "step, plateau: factor of a reduction");
  number("--lr-floor", o.schedule.floor, "step, cosine, plateau: lowest learning rate");
  count("--lr-patience", o.schedule.patience, "plateau: epochs without a lower loss to wait");
  number("--lr-rise", o.schedule.pct_start, "one-cycle: share of the steps in which it rises");
  number("--lr-start-divisor", o.schedule.div_factor, "one-cycle: it starts at --lr over this");
  number("--lr-end-divisor", o.schedule.final_div_factor, "one-cycle: and ends at that over this");
  command
      .add_option("--ema", o.ema,
                  "Also average the weights over the steps, with this decay (0.999)")
      ->type_name("DECAY")
      ->group(group);
  command
      .add_flag(
          "--noise-scale", o.noise_scale,
          "Estimate the gradient's noise scale: the effective batch beyond which more samples "
          "help little")
      ->group(group);
}

void add_loss_scale_options(CLI::App& command, Options& o) {
  const std::string group = "Loss scale";
  command
      .add_option("--loss-scale", o.loss_scale,
                  "Factor on the loss in backward, divided out in the step")
      ->transform(CLI::Transformer(std::map<std::string, double>{{"dynamic", dynamic_loss_scale}},
                                   CLI::ignore_case)
                      .description(""))
      ->type_name("X|dynamic")
      ->default_str("dynamic with fp16, else 1")
      ->group(group);
  LossScale& scale = o.dynamic_scale;
  const auto add = [&](const std::string& name, auto& value, const std::string& help) {
    command.add_option(name, value, "dynamic: " + help)->capture_default_str()->group(group);
  };
  add("--loss-scale-init", scale.initial, "the first");
  add("--loss-scale-growth", scale.growth, "its factor after windows without an overflow");
  add("--loss-scale-interval", scale.interval, "so many of them in a row");
  add("--loss-scale-backoff", scale.backoff, "its factor after an overflow");
  add("--loss-scale-hysteresis", scale.hysteresis, "so many overflows before it backs off");
  add_choice(command, "--on-overflow", o.on_overflow, on_overflow_names(),
             "A gradient that is not finite: skip its window; leave out its micro-batch (takes "
             "--strategy separate); or stop")
      ->group(group);
  command
      .add_option("--max-skipped", o.max_skipped,
                  "Stop after so many windows in a row that no smaller loss scale would save, or "
                  "in which it does not halve")
      ->check(positive())
      ->capture_default_str()
      ->group(group);
}

void add_output_options(CLI::App& command, Options& o) {
  const std::string group = "Output";
  command.add_option("--save", o.save, "Write the weights at the end; PyTorch's names and layout")
      ->type_name("FILE.safetensors")
      ->group(group);
  command.add_option("--json", o.json, "Write a JSON line per optimizer step, and the test score")
      ->type_name("FILE")
      ->group(group);
  CLI::Option* log_dir =
      command
          .add_option("--log-dir", o.log_dir,
                      "Keep the run's log there: TensorBoard's files, metrics.jsonl, summary.json")
          ->type_name("DIR")
          ->group(group);
  command
      .add_option("--log-histograms", o.log_histograms,
                  "Also log histograms of the gradients, every so many optimizer steps")
      ->check(positive())
      ->type_name("STEPS")
      ->needs(log_dir)
      ->group(group);
  CLI::Option* trace =
      command
          .add_option("--memory-trace", o.memory_trace,
                      "Record every allocation of the first windows, as Chrome's trace events")
          ->type_name("FILE.json")
          ->group(group);
  command.add_option("--memory-trace-windows", o.memory_trace_windows, "How many windows")
      ->check(positive())
      ->capture_default_str()
      ->needs(trace)
      ->group(group);
  CLI::Option* profile =
      command
          .add_option("--profile", o.profile,
                      "Time every kernel: a table by phase and op, and there the first windows as "
                      "Chrome's trace events; without CUDA graphs")
          ->type_name("FILE.json")
          ->group(group);
  command
      .add_option("--profile-windows", o.profile_windows,
                  "How many windows' events, at most 100000 events; the table sums all windows")
      ->check(positive())
      ->capture_default_str()
      ->needs(profile)
      ->group(group);
  command.add_option("--log-every", o.log_every, "Optimizer steps between two lines in a pipe")
      ->check(positive())
      ->capture_default_str()
      ->group(group);
  command
      .add_flag("--measure-baseline", o.measure_baseline,
                "Also run the same effective batch without accumulation and measure its memory")
      ->group(group);
}

std::map<std::string, std::string> settings_of(CLI::App& command) {
  std::map<std::string, std::string> settings;
  for (CLI::Option* option : command.get_options()) {
    // By now the value it is set to, as far as the library can tell.
    std::string text = option->capture_default_str()->get_default_str();
    if (text.empty()) text = CLI::detail::join(option->results(), " ");
    if (option->get_group() != "Output" && !text.empty()) settings[option->get_name()] = text;
  }
  return settings;
}

Device wanted_device(const Options& options) {
  if (options.device == DeviceChoice::automatic)
    return cuda::unavailable_reason().empty() ? Device::cuda : Device::cpu;
  return options.device == DeviceChoice::cpu ? Device::cpu : Device::cuda;
}

void apply_threads(const Options& options) {
  set_thread_count(std::min({options.threads, available_cpus(), most_threads}));
}

Device apply_machine_options(const Options& options) {
  const Device device = wanted_device(options);
  if (options.device == DeviceChoice::cuda) cuda::require_device();
  if (options.device == DeviceChoice::automatic) {
    const std::string reason = cuda::unavailable_reason();
    if (reason.empty()) fmt::print("device: cuda ({})\n", cuda::describe_device());
    else fmt::print("device: cpu (not cuda: {})\n", reason);
  }
  const bool tf32 = options.precision == Precision::tf32;
  check(!tf32 || device == Device::cuda,
        "--precision tf32 is a way of a GPU's tensor cores to multiply, but this run is on {}: "
        "expected fp32, bf16 or fp16, or --device cuda",
        name(device));
  if (device == Device::cuda) cuda::allow_tf32(tf32);
  apply_threads(options);
  if (!options.memory_limit.empty()) ledger(device).set_limit(parse_bytes(options.memory_limit));
  return device;
}

}  // namespace accrue::app
