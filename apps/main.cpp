#include <cstdio>

#include "apps/bench.h"
#include "apps/eval.h"
#include "apps/info.h"
#include "apps/suggest.h"
#include "apps/train.h"

namespace accrue::app {
namespace {

int run(int argc, char** argv) {
  CLI::App app{"Trains any effective batch in the memory you have.", "accrue"};
  app.set_version_flag("--version", ACCRUE_VERSION);
  app.require_subcommand(1);
  TrainOptions options;

  CLI::App* train_command = app.add_subcommand("train", "Train a network from micro-batches");
  add_model_options(*train_command, options);
  add_batch_options(*train_command, options);
  add_optimizer_options(*train_command, options);
  add_output_options(*train_command, options);
  train_command->final_callback([&] { train(options); });

  CLI::App* eval_command = app.add_subcommand("eval", "Loss and accuracy of saved weights");
  add_model_options(*eval_command, options);
  eval_command->add_option("--micro-batch", options.micro_batch, "Samples in memory at a time")
      ->capture_default_str();
  eval_command->final_callback([&] { eval(options); });

  CLI::App* info_command =
      app.add_subcommand("info", "The build, the machine and a model's layers");
  add_model_options(*info_command, options);
  add_optimizer_options(*info_command, options);
  info_command->final_callback([&] { info(options); });

  CLI::App* bench = app.add_subcommand("bench", "Measure speed or memory")->require_subcommand(1);
  double seconds = 5;
  CLI::App* bench_train_command = bench->add_subcommand("train", "Samples per second");
  add_model_options(*bench_train_command, options);
  add_batch_options(*bench_train_command, options);
  add_optimizer_options(*bench_train_command, options);
  bench_train_command->add_option("--seconds", seconds, "How long to measure")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  bench_train_command->add_option("--json", options.json, "Write the figures")->type_name("FILE");
  bench_train_command->final_callback([&] { bench_train(options, seconds); });

  BenchMemoryOptions memory;
  CLI::App* bench_memory_command =
      bench->add_subcommand("memory", "Peak memory with and without accumulation");
  add_model_options(*bench_memory_command, options);
  add_memory_bench_options(*bench_memory_command, options, memory);
  bench_memory_command->final_callback([&] { bench_memory(options, memory); });

  BenchKernelsOptions kernels;
  CLI::App* bench_kernels_command =
      bench->add_subcommand("kernels", "Accumulation and steps, from naive to shipped");
  add_kernels_bench_options(*bench_kernels_command, options, kernels);
  bench_kernels_command->final_callback([&] { bench_kernels(options, kernels); });

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return report(app, error);
  }
  return 0;
}

}  // namespace
}  // namespace accrue::app

int main(int argc, char** argv) {
  try {
    return accrue::app::run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "accrue: error: {}\n", error.what());
    return 1;
  }
}
