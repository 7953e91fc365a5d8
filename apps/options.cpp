#include "apps/options.h"

#include <omp.h>

#include <map>

#include "core/cuda.h"

namespace accrue::app {
namespace {

template <class Enum>
CLI::Option* add_choice(CLI::App& command, const std::string& name, Enum& value,
                        const std::map<std::string, Enum>& choices, const std::string& help) {
  std::string names, current;
  for (const auto& [text, choice] : choices) {
    names += (names.empty() ? "" : "|") + text;
    if (choice == value) current = text;
  }
  return command.add_option(name, value, help)
      ->transform(CLI::CheckedTransformer(choices, CLI::ignore_case).description(""))
      ->type_name(names)
      ->default_str(current);
}

}  // namespace

const std::map<std::string, InitScheme>& init_scheme_names() {
  static const std::map<std::string, InitScheme> names{{"kaiming", InitScheme::kaiming},
                                                       {"xavier", InitScheme::xavier},
                                                       {"lecun", InitScheme::lecun},
                                                       {"normal", InitScheme::normal}};
  return names;
}

const std::map<std::string, Strategy>& strategy_names() {
  static const std::map<std::string, Strategy> names{{"fused", Strategy::fused},
                                                     {"separate", Strategy::separate}};
  return names;
}

const std::map<std::string, OptimizerKind>& optimizer_names() {
  static const std::map<std::string, OptimizerKind> names{
      {"adam", OptimizerKind::adam}, {"adamw", OptimizerKind::adamw}, {"sgd", OptimizerKind::sgd}};
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

std::string Batches::describe() const {
  const int64_t whole = effective / micro, rest = effective % micro;
  if (whole == 0) return fmt::format("{} (1 x {})", effective, effective);
  if (rest == 0) return fmt::format("{} ({} x {})", effective, micro, whole);
  return fmt::format("{} ({} x {} + {})", effective, micro, whole, rest);
}

Batches TrainOptions::batches(int64_t samples) const {
  check(micro_batch > 0, "--micro-batch is {}: expected 1 or more samples", micro_batch);
  check(!accum || *accum > 0, "--accum is {}: expected 1 or more micro-batches", accum.value_or(0));
  check(!effective_batch || *effective_batch > 0,
        "--effective-batch is {}: expected 1 or more samples", effective_batch.value_or(0));
  check(micro_batch <= samples, "--micro-batch {} is larger than the data: {} has {} samples",
        micro_batch, data, samples);
  if (accum && effective_batch)
    check(*accum * micro_batch == *effective_batch,
          "--micro-batch {} x --accum {} is {}, but --effective-batch is {}; leave out --accum and "
          "it is derived",
          micro_batch, *accum, *accum * micro_batch, *effective_batch);
  const int64_t effective = effective_batch ? *effective_batch : micro_batch * accum.value_or(4);
  check(effective <= samples, "an effective batch of {} is larger than the data: {} has {} samples",
        effective, data, samples);
  return {std::min(micro_batch, effective), effective};
}

void add_model_options(CLI::App& command, TrainOptions& o) {
  add_choice(command, "--model", o.model.kind, model_names(), "Network to train")
      ->group("Model and data");
  command
      .add_option("--data", o.data,
                  "mnist, fashion, digits (built in), or a directory of IDX files")
      ->type_name("NAME|DIR")
      ->capture_default_str()
      ->group("Model and data");
  command.add_option("--data-dir", o.data_dir, "Where mnist and fashion are looked for first")
      ->type_name("DIR")
      ->group("Model and data");
  command.add_option("--dropout", o.model.dropout, "Dropout before the last layer")
      ->check(CLI::Range(0.0, 0.999))
      ->capture_default_str()
      ->group("Model and data");
  add_choice(command, "--init-scheme", o.model.init, init_scheme_names(),
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

void add_device_options(CLI::App& command, TrainOptions& o) {
  add_choice(command, "--device", o.device, device_names(),
             "Where to compute; auto: cuda where it can be used, else cpu")
      ->group("Machine");
  command.add_option("--threads", o.threads, "Threads; 0 takes all of the machine's")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str()
      ->group("Machine");
}

void add_batch_options(CLI::App& command, TrainOptions& o) {
  const std::string group = "Batches";
  command.add_option("--micro-batch", o.micro_batch, "Samples in memory at a time")
      ->capture_default_str()
      ->group(group);
  command.add_option("--accum", o.accum, "Micro-batches per optimizer step (default 4)")
      ->group(group);
  command
      .add_option("--effective-batch", o.effective_batch,
                  "Samples per optimizer step; --accum is derived, the remainder exact")
      ->group(group);
  add_strategy_option(command, o);
  command.add_option("--epochs", o.epochs, "Passes over the training data")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str()
      ->group(group);
  command.add_option("--steps", o.steps, "Stop after this many optimizer steps")
      ->check(CLI::NonNegativeNumber)
      ->group(group);
  command.add_flag("!--no-shuffle", o.shuffle, "Take the samples in the order of the file")
      ->group(group);
}

void add_strategy_option(CLI::App& command, TrainOptions& o) {
  add_choice(command, "--strategy", o.strategy, strategy_names(),
             "fused: backward accumulates; separate: a second buffer and an adding pass")
      ->group("Batches");
}

void add_optimizer_kind_option(CLI::App& command, TrainOptions& o) {
  add_choice(command, "--optimizer", o.optimizer, optimizer_names(), "Update rule")
      ->group("Optimizer");
}

void add_optimizer_options(CLI::App& command, TrainOptions& o) {
  const std::string group = "Optimizer";
  add_optimizer_kind_option(command, o);
  const auto number = [&](const std::string& name, double& value, const std::string& help) {
    command.add_option(name, value, help)->capture_default_str()->group(group);
  };
  const auto count = [&](const std::string& name, int64_t& value, const std::string& help) {
    command.add_option(name, value, help)->capture_default_str()->group(group);
  };
  number("--lr", o.schedule.base, "Learning rate");
  number("--beta1", o.adam.beta1, "Adam: decay of the first moment");
  number("--beta2", o.adam.beta2, "Adam: decay of the second moment");
  number("--eps", o.adam.eps, "Adam: added to the root of the second moment");
  command.add_option("--weight-decay", o.weight_decay, "Default 0; for adamw 0.01")->group(group);
  number("--momentum", o.sgd.momentum, "SGD momentum");
  command.add_flag("--nesterov", o.sgd.nesterov, "SGD: Nesterov's momentum")->group(group);
  command.add_option("--clip-norm", o.clip_norm, "Largest norm of the window's gradient")
      ->group(group);
  number("--loss-scale", o.loss_scale, "Factor on the loss in backward, divided out in the step");
  using Schedule = ScheduleOptions::Kind;
  add_choice<Schedule>(command, "--schedule", o.schedule.kind,
                       {{"constant", Schedule::constant},
                        {"step", Schedule::step},
                        {"cosine", Schedule::cosine},
                        {"plateau", Schedule::plateau}},
                       "Learning rate over the optimizer steps")
      ->group(group);
  count("--warmup-steps", o.schedule.warmup_steps, "Linear warm-up, for every schedule");
  count("--lr-every", o.schedule.every, "step: optimizer steps between two reductions");
  number("--lr-gamma", o.schedule.gamma, "step, plateau: factor of a reduction");
  number("--lr-floor", o.schedule.floor, "step, cosine, plateau: lowest learning rate");
  count("--lr-patience", o.schedule.patience, "plateau: epochs without a lower loss to wait");
}

void add_output_options(CLI::App& command, TrainOptions& o) {
  const std::string group = "Output";
  command.add_option("--save", o.save, "Write the weights at the end; PyTorch's names and layout")
      ->type_name("FILE.safetensors")
      ->group(group);
  command.add_option("--json", o.json, "Write a JSON line per optimizer step")
      ->type_name("FILE")
      ->group(group);
  command.add_option("--log-every", o.log_every, "Optimizer steps between two lines in a pipe")
      ->check(CLI::PositiveNumber)
      ->capture_default_str()
      ->group(group);
  command
      .add_flag("--measure-baseline", o.measure_baseline,
                "Also run the same effective batch without accumulation and measure its memory")
      ->group(group);
}

Device apply_machine_options(const TrainOptions& options) {
  Device device = options.device == DeviceChoice::cpu ? Device::cpu : Device::cuda;
  if (options.device == DeviceChoice::cuda) cuda::require_device();
  if (options.device == DeviceChoice::automatic) {
    const std::string reason = cuda::unavailable_reason();
    if (!reason.empty()) device = Device::cpu;
    if (reason.empty()) fmt::print("device: cuda ({})\n", cuda::describe_device());
    else fmt::print("device: cpu (not cuda: {})\n", reason);
  }
  if (options.threads > 0) omp_set_num_threads(options.threads);
  if (!options.memory_limit.empty()) ledger(device).set_limit(parse_bytes(options.memory_limit));
  return device;
}

}  // namespace accrue::app
