#include <CLI/CLI.hpp>
#include <cstdio>

#include "apps/bench/commands.h"
#include "apps/cli/checkpoint_options.h"
#include "apps/cli/processor.h"
#include "apps/cli/suggest.h"
#include "apps/commands/eval.h"
#include "apps/commands/info.h"
#include "apps/commands/memory_advice.h"
#include "apps/commands/plan.h"
#include "apps/commands/train.h"
#include "apps/report/runs.h"
#include "train/build.h"

namespace accrue::app {
namespace {

int run(int argc, char** argv) {
  CLI::App app{"Trains any effective batch in the memory you have.", "accrue"};
  app.set_version_flag("--version", version());
  app.require_subcommand(1);
  std::string isa;  // followed before this, by become_program_for_processor()
  app.add_option(
         "--isa", isa,
         "The instructions to use, of those that the program is installed with: baseline, " +
             fmt::format("{}", fmt::join(isa_levels(), ", ")) +
             "; by itself the best that the processor has")
      ->type_name("LEVEL");
  Options options;

  CLI::App* train_command = app.add_subcommand("train", "Train a network from micro-batches");
  add_model_options(*train_command, options);
  add_batch_options(*train_command, options);
  add_optimizer_options(*train_command, options);
  add_loss_scale_options(*train_command, options);
  add_output_options(*train_command, options);
  add_checkpoint_options(*train_command, options);
  add_on_oom_option(*train_command, options);
  train_command->final_callback([&] {
    options.settings = settings_of(*train_command);
    with_advice([&] { return advice_for_training(options); }, [&] { train(options); });
  });

  CLI::App* eval_command = app.add_subcommand("eval", "Loss and accuracy of saved weights");
  add_model_options(*eval_command, options);
  eval_command->add_option("--micro-batch", options.micro_batch, "Samples in memory at a time")
      ->capture_default_str();
  eval_command->add_option("--json", options.json, "Write the scores")->type_name("FILE");
  eval_command->final_callback([&] { with_advice(advice_for_evaluation, [&] { eval(options); }); });

  PlanOptions planning;
  CLI::App* plan_command =
      app.add_subcommand("plan", "The largest micro-batch that fits, and what else would");
  add_model_options(*plan_command, options);
  add_batch_options(*plan_command, options);
  add_optimizer_options(*plan_command, options);
  add_loss_scale_options(*plan_command, options);
  add_plan_options(*plan_command, options, planning);
  plan_command->final_callback([&] { plan(options, planning); });

  CLI::App* info_command =
      app.add_subcommand("info", "The build, the machine and a model's layers");
  add_model_options(*info_command, options);
  add_optimizer_options(*info_command, options);
  info_command
      ->add_option("--effective-batch", options.effective_batch,
                   "Samples per optimizer step, for --beta2-half-life")
      ->check(positive())
      ->group("Optimizer");
  info_command->final_callback([&] { info(options); });

  std::vector<std::string> run_directories;
  std::string report_file = "report.html";
  CLI::App* report_command = app.add_subcommand("report", "Compare runs in one web page");
  report_command->add_option("runs", run_directories, "What train --log-dir wrote")
      ->type_name("DIR")
      ->required();
  report_command->add_option("--output", report_file, "The page")
      ->type_name("FILE.html")
      ->capture_default_str();
  report_command->final_callback([&] { report_runs(run_directories, report_file); });

  CLI::App* bench = app.add_subcommand("bench", "Measure speed or memory")->require_subcommand(1);
  BenchTrainOptions training;
  CLI::App* bench_train_command = bench->add_subcommand("train", "Samples per second");
  add_model_options(*bench_train_command, options);
  add_batch_options(*bench_train_command, options);
  add_optimizer_options(*bench_train_command, options);
  add_loss_scale_options(*bench_train_command, options);
  add_train_bench_options(*bench_train_command, options, training);
  bench_train_command->final_callback([&] { bench_train(options, training); });

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
    accrue::app::become_program_for_processor(argc, argv);
    return accrue::app::run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "accrue: error: {}\n", error.what());
    return 1;
  }
}
