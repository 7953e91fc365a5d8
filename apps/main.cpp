#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>

#include "apps/bench/commands.h"
#include "apps/cli/completion.h"
#include "apps/cli/config.h"
#include "apps/cli/declare.h"
#include "apps/cli/help.h"
#include "apps/cli/load_data.h"
#include "apps/cli/messages.h"
#include "apps/cli/output.h"
#include "apps/cli/overwriting.h"
#include "apps/cli/processor.h"
#include "apps/cli/ranks.h"
#include "apps/cli/suggest.h"
#include "apps/commands/data_check.h"
#include "apps/commands/eval.h"
#include "apps/commands/info.h"
#include "apps/commands/memory_advice.h"
#include "apps/commands/plan.h"
#include "apps/commands/predict.h"
#include "apps/commands/train.h"
#include "apps/font/draw.h"
#include "apps/font/export.h"
#include "apps/font/prepare.h"
#include "apps/font/score.h"
#include "data/byte_stream.h"
#include "report/report.h"
#include "train/build.h"

namespace accrue::app {
namespace {

// Lets an option that was given "-" write to standard output.
void write_to_standard_output(const Setting& setting) {
  constexpr std::array texts{"json", "csv", "output", "report", "memory-trace", "profile"};
  check(std::ranges::find(texts, setting.about.name) != texts.end(),
        "--{} -: expected the name of a file or directory, for standard output takes text alone",
        setting.about.name);
  reserve_standard_output();
}

// Among several ranks of a command that is one process the first says so.
void refuse_ranks(const std::string& command) {
  if (launched().count == 1) return;
  if (launched().rank > 0) throw CLI::Success();
  fail(
      "{} is one process, but was started as {} ranks: expected train, eval or bench train, or no "
      "mpirun",
      command, launched().count);
}

// What a command needs beside its work: whether the launcher's ranks share it, and the options that
// may help when memory runs out.
struct Around {
  bool is_shared = false;
  std::function<std::string()> advice{};
};

// A command that has these settings as its options.
CLI::App* add_command(CLI::App& parent, const std::string& name, const std::string& description,
                      const Settings& settings, Options& options, const std::function<void()>& work,
                      const Around& around = {}) {
  CLI::App* const command = parent.add_subcommand(name, description);
  declare(*command, settings);
  command->add_option("--config", "Read settings from this file; these options come before it")
      ->type_name("FILE.toml");
  const auto quiet = std::make_shared<bool>(false);
  command->add_flag("--quiet", *quiet, "Print nothing but warnings and errors");
  command->final_callback([=, &options] {
    constexpr std::array shared{"train", "eval"};
    if (std::ranges::find(shared, name) == shared.end()) refuse_ranks(name);
    options.given = given_settings(*command, settings);
    options = with_options_of_weights(options);
    check_effects(*command, settings);
    paths_of(*command, settings).refuse_overwriting();
    for (const Setting& setting : settings)
      if (setting.text() == "-") write_to_standard_output(setting);
    if (*quiet) silence_messages();
    const std::unique_ptr<MpiRanks> ranks = around.is_shared ? start_ranks(options) : nullptr;
    try {
      try {
        work();
      } catch (const OutOfMemory& error) {
        if (!around.advice) throw;
        fail_with_advice(error, around.advice);
      }
    } catch (const std::exception& error) {
      if (ranks) abort_ranks(*ranks, error);
      throw;
    }
    options.ranks = nullptr;
  });
  return command;
}

// The options of all commands.
struct Asked {
  Options options;
  PlanOptions plan;
  InfoOptions info;
  PredictOptions predict;
  BenchTrainOptions bench_train;
  BenchMemoryOptions bench_memory;
  BenchKernelsOptions bench_kernels;
  fonts::GlyphPairsOptions font_prepare;
  Options font;
  FontDrawOptions font_draw;
  FontExportOptions font_export;
  DataCheckOptions data_check;
  std::vector<std::string> run_directories;
  std::string page = "report.html", shell;
};

void add_network_commands(CLI::App& app, Asked& asked, const Settings& all) {
  Options& options = asked.options;
  const Settings of_model = all.in({"Model and data", "Font GAN", "Machine"});
  const Settings of_optimizer = all.in({"Optimizer", "Loss scale"});
  const Settings of_batches = all.in({"Batches"}).without({"on-oom"});
  add_command(app, "train", "Train a network from micro-batches", all, options,
              [&] { train(options); }, {true, [&] { return advice_for_training(options); }});
  add_command(app, "eval", "Loss and accuracy of saved weights",
              of_model.without({"augment", "dropout", "init-scheme", "seed", "new-head"})
                  .without({"g-dropout", "d-spectral-norm", "order", "n-critic", "g-steps", "lr-d",
                            "constancy", "l1-weight", "constancy-weight", "category-weight",
                            "adversarial-weight"})
                  .append(evaluation_settings(options))
                  .append(all.only({"rank-timeout"})),
              options, [&] { eval(options); }, {true, [&] { return advice_for_scoring(options); }});
  CLI::App* const predicting = add_command(
      app, "predict", "The answers of saved weights to each sample",
      settings_of(asked.predict, options), options,
      [&] { with_advice(advice_for_evaluation, [&] { predict(options, asked.predict); }); });
  for (const char* option : {"--weights", "--out"}) predicting->get_option(option)->required();
  predicting->add_option("images", asked.predict.images, "Images to answer to, and folders of them")
      ->type_name("FILE|DIR");
  add_command(app, "plan", "The largest micro-batch that fits, and what else would",
              of_model.without({"memory-limit"})
                  .append(of_batches.without({"micro-batch", "accum"}))
                  .append(of_optimizer)
                  .append(all.only({"shard-optimizer", "rank-exchange"}))
                  .append(settings_of(asked.plan, options)),
              options, [&] { plan(options, asked.plan); })
      ->get_option("--memory")
      ->required();
  add_command(app, "info", "The build, the machine and a model's layers",
              Settings(of_model)
                  .append(all.in({"Optimizer"}))
                  .append(all.only({"micro-batch", "effective-batch"}))
                  .append(settings_of(asked.info, options)),
              options, [&] { info(options, asked.info); });
}

void report_runs(const std::vector<std::string>& directories, const std::string& output) {
  write_output(output, report_on(directories));
  say("wrote {}: {}\n", output, counted(int64_t(directories.size()), "run"));
}

void add_report_command(CLI::App& app, Asked& asked) {
  add_command(app, "report", "Compare runs in one web page",
              Settings().group("Output").add(
                  asked.page, {"output", Decides::no_result, "The page", "FILE.html"}),
              asked.options, [&] { report_runs(asked.run_directories, asked.page); })
      ->add_option("runs", asked.run_directories, "What train --log-dir wrote")
      ->type_name("DIR")
      ->required();
}

CLI::App& add_data_commands(CLI::App& app, Asked& asked) {
  CLI::App* data = app.add_subcommand("data", "Look at a data set")->require_subcommand(1);
  add_command(*data, "check", "Find the bad files of a data set of images",
              settings_of(asked.data_check), asked.options,
              [&] { reading(asked.data_check.directory, [&] { check_data(asked.data_check); }); })
      ->add_option("directory", asked.data_check.directory, "The folder")
      ->type_name("DIR")
      ->required();
  return *data;
}

CLI::App& add_bench_commands(CLI::App& app, Asked& asked, const Settings& all) {
  Options& options = asked.options;
  const Settings of_model = all.in({"Model and data", "Font GAN", "Machine"});
  CLI::App* bench = app.add_subcommand("bench", "Measure speed or memory")->require_subcommand(1);
  add_command(*bench, "train", "Samples per second",
              Settings(of_model)
                  .append(all.in({"Batches"}).without({"on-oom"}))
                  .append(all.in({"Optimizer", "Loss scale", "Several processes"}))
                  .append(settings_of(asked.bench_train, options)),
              options, [&] { bench_train(options, asked.bench_train); }, {.is_shared = true});
  add_command(*bench, "memory", "Peak memory with and without accumulation",
              Settings(of_model)
                  .append(all.only({"optimizer", "lr"}))
                  .append(settings_of(asked.bench_memory, options)),
              options, [&] { bench_memory(options, asked.bench_memory); })
      ->get_option("--effective-batch")
      ->required();
  add_command(*bench, "kernels", "Accumulation and steps, from naive to shipped",
              all.only({"device", "threads"}).append(settings_of(asked.bench_kernels, options)),
              options, [&] { bench_kernels(options, asked.bench_kernels); });
  return *bench;
}

CLI::App& add_font_commands(CLI::App& app, Asked& asked) {
  CLI::App* font = app.add_subcommand("font", "Draw the characters of one font in another's style")
                       ->require_subcommand(1);
  CLI::App* const prepare = add_command(*font, "prepare", "Pairs of glyphs from font files",
                                        settings_of(asked.font_prepare), asked.options,
                                        [&] { prepare_font(asked.font_prepare); });
  for (const char* option : {"--source", "--target", "--chars", "--out"})
    prepare->get_option(option)->required();
  Options& options = asked.font;
  const Settings all =
      settings_of(options).settled("model").without({"hold-out", "skip-bad", "cache", "freeze"});
  add_command(*font, "train", "Train a generator and a discriminator", all, options,
              [&] { train(options); }, {true, [&] { return advice_for_training(options); }});
  add_command(
      *font, "draw", "Characters in a style, as a sheet", settings_of(asked.font_draw, options),
      options,
      [&] { with_advice(advice_for_evaluation, [&] { draw_font(options, asked.font_draw); }); })
      ->get_option("--weights")
      ->required();
  add_command(*font, "score", "How well held-out characters are drawn",
              font_score_settings(options), options,
              [&] { with_advice(advice_for_evaluation, [&] { score_font(options); }); })
      ->get_option("--weights")
      ->required();
  CLI::App* const write = add_command(
      *font, "export", "A font file of characters drawn in a style",
      settings_of(asked.font_export, options), options, [&] {
        with_advice(advice_for_evaluation, [&] { export_font(options, asked.font_export); });
      });
  for (const char* option : {"--weights", "--font", "--chars", "--out"})
    write->get_option(option)->required();
  return *font;
}

void add_completion_command(CLI::App& app, Asked& asked) {
  CLI::App* completion =
      app.add_subcommand("completion", "A script that completes these for a shell");
  completion->add_option("shell", asked.shell, "bash, zsh or fish")
      ->type_name("bash|zsh|fish")
      ->required();
  completion->final_callback([&] { say("{}", completion_script(app, asked.shell)); });
}

int run(int argc, char** argv) {
  CLI::App app{"Trains any effective batch in the memory you have.", "accrue"};
  app.set_version_flag("--version", version());
  app.require_subcommand(1);
  wrap_help(app);
  std::string isa;  // followed before this, by become_program_for_processor()
  app.add_option(
         "--isa", isa,
         "The instructions to use, of those that the program is installed with: baseline, " +
             fmt::format("{}", fmt::join(isa_levels(), ", ")) +
             "; by itself the best that the processor has")
      ->type_name("LEVEL");
  Asked asked;
  asked.font = font_defaults();
  const Settings all = settings_of(asked.options);
  add_network_commands(app, asked, all);
  add_report_command(app, asked);
  CLI::App& data = add_data_commands(app, asked);
  CLI::App& bench = add_bench_commands(app, asked, all);
  CLI::App& font = add_font_commands(app, asked);
  const Settings known = Settings(all)
                             .append(settings_of(asked.font_prepare))
                             .append(settings_of(asked.data_check))
                             .append(settings_of(asked.font_draw, asked.font));
  add_completion_command(app, asked);

  std::vector<std::string> arguments(argv + 1, argv + argc);
  const HelpDetail detail = rewrite_help(arguments);
  for (CLI::App* parent : {&app, &data, &bench, &font})
    for (CLI::App* command : parent->get_subcommands([](CLI::App*) { return true; }))
      shorten_help(*command, detail);
  try {
    arguments = with_config(arguments, known, app);
    std::ranges::reverse(arguments);  // as the parser takes them
    app.parse(std::move(arguments));
  } catch (const CLI::ParseError& error) {
    // All ranks have the same arguments: one says what is wrong with them.
    if (launched().rank > 0) return 0;
    if (const int status = report(app, error); status != 0) return status;
  }
  return 0;
}

}  // namespace
}  // namespace accrue::app

int main(int argc, char** argv) {
  using namespace accrue::app;
  int status = 1;
  try {
    become_program_for_processor(argc, argv);
    begin_messages();
    status = run(argc, argv);
  } catch (const std::bad_alloc&) {
    say_error("accrue: error: the machine has no more memory\n");
  } catch (const std::exception& error) {
    say_error("accrue: error: {}\n", error.what());
  }
  return end_messages(status);
}
