#include "apps/program.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "apps/cli/command_line.h"
#include "apps/cli/completion.h"
#include "apps/cli/config.h"
#include "apps/cli/help.h"
#include "apps/cli/messages.h"
#include "apps/cli/output.h"
#include "apps/cli/processor.h"
#include "apps/cli/ranks.h"
#include "apps/cli/suggest.h"
#include "apps/commands_of_domains.h"
#include "core/build.h"
#include "core/error.h"
#include "report/report.h"

namespace accrue::app {
namespace {

// `accrue info FILE.onnx` is short for --model FILE.onnx.
void take_model_without_option(CLI::App& command, const Settings& settings) {
  const auto take = [settings](const std::string& file) {
    try {
      settings.at("model").give(file);
    } catch (const Error& error) {
      throw CLI::ValidationError(error.what());
    }
  };
  command
      .add_option_function<std::string>("network", take, "A network in an ONNX file, as --model")
      ->type_name("FILE.onnx");
}

// Adds domains' commands after train and eval and before the commands that only inspect.
void add_network_commands(CommandLine& line, Asked& asked) {
  for (const Command& command : commands_of_networks(asked)) {
    if (command.name == "export")
      for (const DomainCommands& domain : commands_of_domains())
        if (domain.of_networks) domain.of_networks(line);
    CLI::App& added = line.add(line.program(), command, asked.options);
    if (command.name == "info") take_model_without_option(added, command.settings);
  }
}

void report_runs(const std::vector<std::string>& directories, const std::string& output) {
  write_output(output, report_on(directories));
  say("wrote {}: {}\n", output, counted(int64_t(directories.size()), "run"));
}

void add_report_command(CommandLine& line, Asked& asked) {
  Settings settings = Settings().group("Output").add(
      asked.page, {"output", Decides::no_result, "The page", writes("FILE.html", Path::text)});
  line.add(line.program(),
           {.name = "report",
            .description = "Compare runs in one web page",
            .settings = std::move(settings),
            .work = [&] { report_runs(asked.run_directories, asked.page); }},
           line.options())
      .add_option("runs", asked.run_directories, "What train --log-dir wrote")
      ->type_name("DIR")
      ->required();
}

void add_data_commands(CommandLine& line) {
  CLI::App& data = line.add_group("data", "Look at a data set");
  for (const DomainCommands& domain : commands_of_domains())
    if (domain.of_data) domain.of_data(line, data);
}

void add_bench_commands(CommandLine& line, Asked& asked) {
  Request& options = line.options();
  const Settings& all = line.all();
  const Settings of_model = line.settings_of_networks();
  CLI::App& bench = line.add_group("bench", "Measure speed or memory");
  line.add(bench,
           {.name = "train",
            .description = "Samples per second",
            .settings = Settings(of_model)
                            .append(all.in({"Batches"}).without({"on-oom"}))
                            .append(all.in({"Optimizer", "Loss scale", "Several processes"}))
                            .append(settings_of(asked.bench_train, options)),
            .work = [&] { bench_train(options, asked.bench_train); },
            .is_shared = true},
           options);
  line.add(bench,
           {.name = "memory",
            .description = "Peak memory with and without accumulation",
            .settings = Settings(of_model)
                            .append(all.only({"optimizer", "lr"}))
                            .append(settings_of(asked.bench_memory, options)),
            .work = [&] { bench_memory(options, asked.bench_memory); },
            .needed = {"--effective-batch"}},
           options);
  line.add(bench,
           {.name = "kernels",
            .description = "Accumulation and steps, from naive to shipped",
            .settings =
                all.only({"device", "threads"}).append(settings_of(asked.bench_kernels, options)),
            .work = [&] { bench_kernels(options, asked.bench_kernels); }},
           options);
}

void add_completion_command(CLI::App& app, Asked& asked) {
  CLI::App* completion =
      app.add_subcommand("completion", "A script that completes the commands in a shell");
  completion->add_option("shell", asked.shell, "bash, zsh or fish")
      ->type_name("bash|zsh|fish")
      ->required();
  completion->final_callback([&] { say("{}", completion_script(app, asked.shell)); });
}

}  // namespace

// The program's parser with all of its commands.
struct Parser {
  explicit Parser(Asked& asked, Reads reads = Reads::words())
      : line(app, asked.options, std::move(reads)) {
    app.set_version_flag("--version", version());
    app.require_subcommand(1);
    wrap_help(app);
    app.add_option("--isa", isa,
                   "The instruction set to use, if the program is installed for it: baseline, " +
                       fmt::format("{}", fmt::join(isa_levels(), ", ")) +
                       "; default: the best that the processor has")
        ->type_name("LEVEL");
    add_network_commands(line, asked);
    add_report_command(line, asked);
    add_data_commands(line);
    add_bench_commands(line, asked);
    for (const DomainCommands& domain : commands_of_domains())
      if (domain.own) domain.own(line);
    add_completion_command(app, asked);
  }

  void parse(std::vector<std::string> arguments) {
    arguments = with_config(arguments, line.known, app);
    std::ranges::reverse(arguments);  // the parser takes them in this order
    app.parse(std::move(arguments));
  }

  CLI::App app{"Trains any effective batch in the memory you have.", "accrue"};
  std::string isa;  // become_program_for_processor() has already used it
  CommandLine line;
};

namespace {

// A parser for the arguments' command alone, which has parsed them. Null if it does not understand
// them, or if they ask for help about commands.
std::unique_ptr<Parser> parser_of_one(Asked& asked, const std::vector<std::string>& arguments) {
  std::string path;
  for (const std::string& word : arguments) {
    if (word.starts_with("-")) break;
    path += (path.empty() ? "" : " ") + word;
  }
  auto parser = std::make_unique<Parser>(asked, Reads::one(path));
  if (!parser->line.knows_options()) return nullptr;
  try {
    parser->parse(arguments);
  } catch (const CLI::ParseError&) {
    return nullptr;
  }
  return parser;
}

}  // namespace

int run_program(int argc, char** argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  Asked asked_of_one, asked;
  std::unique_ptr<Parser> parser = parser_of_one(asked_of_one, arguments);
  if (!parser) {
    parser = std::make_unique<Parser>(asked);
    const HelpDetail detail = rewrite_help(arguments);
    for (CLI::App* parent : parser->line.groups())
      for (CLI::App* command : parent->get_subcommands([](CLI::App*) { return true; }))
        shorten_help(*command, parser->line.settings_of_command(*command), detail);
    try {
      parser->parse(std::move(arguments));
    } catch (const CLI::ParseError& error) {
      // All ranks have the same arguments, so only one reports the error.
      if (launched().rank > 0) return 0;
      return report(parser->app, error, [&](const CLI::App& command) {
        return parser->line.settings_of_command(command);
      });
    }
  }
  if (const CommandLine::Chosen* const chosen = parser->line.chosen())
    perform(chosen->command, chosen->options, chosen->paths, chosen->command.work);
  return 0;
}

}  // namespace accrue::app
