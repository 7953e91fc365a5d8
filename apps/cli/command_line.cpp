#include "apps/cli/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>

#include "apps/cli/declare.h"
#include "apps/cli/load_data.h"
#include "apps/cli/messages.h"
#include "apps/cli/output.h"
#include "apps/cli/overwriting.h"
#include "apps/cli/ranks.h"

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

}  // namespace

CommandLine::CommandLine(CLI::App& program, Options& options)
    : known(settings_of(options)),
      program_(program),
      options_(options),
      all_(known),
      groups_{&program} {}

CLI::App& CommandLine::add_group(const std::string& name, const std::string& description) {
  groups_.push_back(program_.add_subcommand(name, description)->require_subcommand(1));
  return *groups_.back();
}

CLI::App& CommandLine::add(CLI::App& parent, const std::string& name,
                           const std::string& description, const Settings& settings,
                           Options& options, const std::function<void()>& work) {
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
    paths_of(*command, settings, options.domains).refuse_overwriting();
    for (const Setting& setting : settings)
      if (setting.text() == "-") write_to_standard_output(setting);
    if (*quiet) silence_messages();
    work();
  });
  return *command;
}

Settings CommandLine::settings_of_networks() const {
  std::vector<std::string> groups = headings_of_networks(options_);
  groups.push_back("Machine");
  return all_.in(groups);
}

void require(CLI::App& command, std::initializer_list<const char*> options) {
  for (const char* option : options) command.get_option(option)->required();
}

}  // namespace accrue::app
