#include <CLI/CLI.hpp>
#include <cstdio>

#include "apps/bench/commands.h"
#include "apps/cli/declare.h"
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
  const Settings all = settings_of(options);
  const Settings of_model = all.in({"Model and data", "Machine"});
  const Settings of_optimizer = all.in({"Optimizer", "Loss scale"});
  const Settings of_batches = all.in({"Batches"}).without({"on-oom"});

  CLI::App* train_command = app.add_subcommand("train", "Train a network from micro-batches");
  declare(*train_command, all);
  train_command->final_callback(
      [&] { with_advice([&] { return advice_for_training(options); }, [&] { train(options); }); });

  CLI::App* eval_command = app.add_subcommand("eval", "Loss and accuracy of saved weights");
  declare(*eval_command, of_model);
  declare(*eval_command, evaluation_settings(options));
  eval_command->final_callback([&] { with_advice(advice_for_evaluation, [&] { eval(options); }); });

  PlanOptions planning;
  CLI::App* plan_command =
      app.add_subcommand("plan", "The largest micro-batch that fits, and what else would");
  declare(*plan_command, of_model.without({"memory-limit"}));
  declare(*plan_command, of_batches.without({"micro-batch", "accum"}));
  declare(*plan_command, of_optimizer);
  declare(*plan_command, settings_of(planning, options));
  plan_command->get_option("--memory")->required();
  plan_command->final_callback([&] {
    planning.strategy_given = plan_command->count("--strategy") > 0;
    planning.recompute_given = plan_command->count("--recompute") > 0;
    plan(options, planning);
  });

  CLI::App* info_command =
      app.add_subcommand("info", "The build, the machine and a model's layers");
  declare(*info_command, of_model);
  declare(*info_command, all.in({"Optimizer"}));
  declare(*info_command, all.only({"effective-batch"}));
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
  declare(*bench_train_command, of_model);
  declare(*bench_train_command, of_batches);
  declare(*bench_train_command, of_optimizer);
  declare(*bench_train_command, settings_of(training, options));
  bench_train_command->final_callback([&] { bench_train(options, training); });

  BenchMemoryOptions memory;
  CLI::App* bench_memory_command =
      bench->add_subcommand("memory", "Peak memory with and without accumulation");
  declare(*bench_memory_command, of_model);
  declare(*bench_memory_command, all.only({"optimizer", "lr"}));
  declare(*bench_memory_command, settings_of(memory, options));
  bench_memory_command->get_option("--effective-batch")->required();
  bench_memory_command->final_callback([&] { bench_memory(options, memory); });

  BenchKernelsOptions kernels;
  CLI::App* bench_kernels_command =
      bench->add_subcommand("kernels", "Accumulation and steps, from naive to shipped");
  declare(*bench_kernels_command, all.only({"device", "threads"}));
  declare(*bench_kernels_command, settings_of(kernels, options));
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
