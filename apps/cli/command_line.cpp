#include "apps/cli/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "apps/cli/declare.h"
#include "apps/cli/help.h"
#include "apps/cli/messages.h"
#include "apps/cli/output.h"
#include "apps/cli/ranks.h"
#include "job/checks.h"

namespace accrue::app {
namespace {

// Files by which `report` knows a run.
void read_runs(Paths& paths, const std::vector<std::string>& directories) {
  for (const std::string& directory : directories)
    for (const char* name : {"metrics.jsonl", "summary.json", "config.toml"})
      paths.read(directory + "/" + name, std::filesystem::path(directory) / name);
}

// The paths among a command's arguments that are no settings.
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

// Lets an option that was given "-" write to standard output.
void write_to_standard_output(const Setting& setting) {
  check(setting.about.takes.path == Path::text,
        "--{} -: expected the name of a file or directory, for standard output takes text alone",
        setting.about.name);
  reserve_standard_output();
}

// The message with what may help.
std::string with_advice(std::string message, const std::function<std::string()>& advice) {
  try {
    if (const std::string text = advice(); !text.empty()) message += "\n" + text;
  } catch (const Error&) {
    // The options themselves are wrong, or the data is gone: the first error says enough.
  }
  return message;
}

// Says what may help, too.
class AdvisedOutOfMemory : public OutOfMemory {
 public:
  AdvisedOutOfMemory(const OutOfMemory& error, std::string text)
      : OutOfMemory(error), text_(std::move(text)) {}
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  std::string text_;
};

// Throws the exception that has ended a command. If several ranks share it, all end.
[[noreturn]] void rethrow(const Command& command, MpiRanks* ranks) {
  try {
    try {
      throw;
    } catch (const OutOfMemory& error) {
      if (command.advice)
        throw AdvisedOutOfMemory(error, with_advice(error.what(), command.advice));
      throw;
    }
  } catch (const std::exception& error) {
    if (ranks) abort_ranks(*ranks, error);
    throw;
  }
}

void say_what_is_passed_over(const Command& command, const std::set<std::string>& given) {
  std::string names;
  for (const Setting& setting : command.settings)
    if (const std::string& name = setting.about.name;
        command.passed_over.contains(name) && given.contains(name))
      names += (names.empty() ? "--" : ", --") + name;
  if (!names.empty()) say("{} does nothing with {}\n", command.name, names);
}

}  // namespace

Command Command::taking_all_of(const Settings& other) const {
  Command result = *this;
  std::set<std::string> known;
  for (const Setting& setting : settings) known.insert({setting.about.name, setting.about.alias});
  const Settings rest =
      other.where([&](const Setting& setting) { return !known.contains(setting.about.name); });
  for (const Setting& setting : rest) result.passed_over.insert(setting.about.name);
  result.settings.append(rest);
  return result;
}

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
  if (&parent == &program_) commands_.emplace(command.name, command);
  const std::string path = (&parent == &program_ ? "" : parent.get_name() + " ") + command.name;
  if (!reads_.all && reads_.path != path) return *parser;
  knows_options_ = true;
  declared_.emplace(parser, command.settings);
  declare(*parser, command.settings);
  for (const std::string& name : command.passed_over)
    parser->get_option("--" + name)->group(without_effect);
  parser->add_option("--config", "Read settings from this file; these options come before it")
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

void CommandLine::perform(const Command& command, Request& options, Paths paths,
                          const std::function<void()>& work) {
  check(command.is_shared || launched().count == 1,
        "{} is one process, but was started as {} ranks: expected train, eval or bench train, or "
        "no mpirun",
        command.name, launched().count);
  resolve(options, command.settings, command.passed_over, launched().count, std::move(paths),
          spoken());
  for (const Setting& setting : command.settings)
    if (setting.text() == "-" && !command.passed_over.contains(setting.about.name))
      write_to_standard_output(setting);
  say_what_is_passed_over(command, options.given);
  MpiRanks* const ranks = command.is_shared ? start_ranks(options, command.settings) : nullptr;
  try {
    work();
  } catch (...) {
    rethrow(command, ranks);
  }
}

void CommandLine::perform() {
  if (!chosen_) return;
  // All ranks have the same words: the first says why one process is expected.
  if (!chosen_->command.is_shared && launched().rank > 0) return;
  perform(chosen_->command, chosen_->options, chosen_->paths, chosen_->command.work);
}

Settings CommandLine::settings_of_command(const CLI::App& parser) const {
  const auto found = declared_.find(&parser);
  return found == declared_.end() ? Settings() : found->second;
}

Settings CommandLine::settings_of_networks() const {
  std::vector<std::string> groups = headings_of_networks(options_);
  groups.push_back("Machine");
  return all_.in(groups);
}

}  // namespace accrue::app
