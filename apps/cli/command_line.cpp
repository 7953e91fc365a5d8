#include "apps/cli/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "apps/cli/declare.h"
#include "apps/cli/help.h"
#include "apps/cli/messages.h"
#include "apps/cli/ranks.h"

namespace accrue::app {
namespace {

// The files that `report` reads from a run's directory.
void read_runs(Paths& paths, const std::vector<std::string>& directories) {
  for (const std::string& directory : directories)
    for (const char* name : {"metrics.jsonl", "summary.json", "config.toml"})
      paths.read(directory + "/" + name, std::filesystem::path(directory) / name);
}

// The paths in a command's arguments that are not settings.
Paths paths_of_arguments(const CLI::App& command) {
  Paths paths;
  const auto given = [&](const char* name) {
    const CLI::Option* const option = command.get_option_no_throw(name);
    return option ? option->results() : std::vector<std::string>();
  };
  for (const std::string& config : given("--config")) paths.read("--config " + config, config);
  for (const std::string& data : given("directory")) paths.read("'" + data + "'", data);
  read_runs(paths, given("runs"));
  return paths;
}

}  // namespace

CommandLine::CommandLine(CLI::App& program, Request& options, Reads reads)
    : known(settings_of(options)),
      program_(program),
      options_(options),
      reads_(std::move(reads)),
      all_(known),
      groups_{&program} {}

CLI::App& CommandLine::add_group(const std::string& name, const std::string& description) {
  groups_.push_back(program_.add_subcommand(name, description)->require_subcommand(1));
  return *groups_.back();
}

CLI::App& CommandLine::add(CLI::App& parent, const Command& command, Request& options) {
  CLI::App* const parser = parent.add_subcommand(command.name, command.description);
  const std::string path = (&parent == &program_ ? "" : parent.get_name() + " ") + command.name;
  if (!reads_.all && reads_.path != path) return *parser;
  knows_options_ = true;
  declared_.emplace(parser, command.settings);
  declare(*parser, command.settings);
  for (const std::string& name : command.passed_over)
    parser->get_option("--" + name)->group(without_effect);
  parser
      ->add_option("--config",
                   "Read settings from this file; options on the command line override it")
      ->type_name("FILE.toml");
  const auto quiet = std::make_shared<bool>(false);
  parser->add_flag("--quiet", *quiet, "Print nothing but warnings and errors");
  for (const std::string& option : command.needed) parser->get_option(option)->required();
  parser->final_callback([=, this, &options] {
    options.given = given_settings(*parser, command.settings);
    if (*quiet) silence_messages();
    chosen_.emplace(Chosen{command, options, paths_of_arguments(*parser)});
  });
  return *parser;
}

const CommandLine::Chosen* CommandLine::chosen() const {
  // All ranks have the same arguments; only the first reports that the command needs one process.
  const bool is_for_others = chosen_ && !chosen_->command.is_shared && launched().rank > 0;
  return chosen_ && !is_for_others ? &*chosen_ : nullptr;
}

Settings CommandLine::settings_of_command(const CLI::App& parser) const {
  const auto found = declared_.find(&parser);
  return found == declared_.end() ? Settings() : found->second;
}

Settings CommandLine::settings_of_networks() const {
  return app::settings_of_networks(all_, options_);
}

}  // namespace accrue::app
