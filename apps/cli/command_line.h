#pragma once

#include <functional>
#include <string>
#include <vector>

#include "apps/cli/options.h"

namespace CLI {
class App;
}

namespace accrue::app {

// What the program is told to do.
struct Command {
  std::string name, description;
  Settings settings;  // that it has as options
  std::function<void()> work;
  std::vector<std::string> needed{};  // options that must be given
  // What may help where memory runs out, for the end of the error's message.
  std::function<std::string()> advice{};
  bool is_shared = false;  // by the launcher's ranks, if there are several
};

// The commands of the program, as they are added to its parser.
class CommandLine {
 public:
  // The options are those of the commands that make a network or have a trained one.
  CommandLine(CLI::App& program, Options& options);

  // Adds a command that works by these options.
  CLI::App& add(CLI::App& parent, const Command& command, Options& options);
  // A command that only has commands.
  CLI::App& add_group(const std::string& name, const std::string& description);

  CLI::App& program() const { return program_; }
  // The program, and the commands that have commands.
  const std::vector<CLI::App*>& groups() const { return groups_; }
  Options& options() const { return options_; }
  const Settings& all() const { return all_; }
  // The settings of a network: those of model and data, of domains' networks and of the machine.
  Settings settings_of_networks() const;

  // The settings that a file of --config may have: all() and what is added to them.
  Settings known;
  // If set, this is done in place of a command's work.
  std::function<void()> instead{};

 private:
  CLI::App& program_;
  Options& options_;
  const Settings all_;  // settings_of(options)
  std::vector<CLI::App*> groups_;
};

}  // namespace accrue::app
