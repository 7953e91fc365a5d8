#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "apps/commands/command.h"

namespace CLI {
class App;
}

namespace accrue::app {

// Which options the parser knows: the options of all commands, or of the command with this path
// only ("bench train"). Declaring the options of all commands takes longer than many a command
// runs.
struct Reads {
  static Reads words() { return {.all = true}; }
  static Reads one(std::string path) { return {.all = false, .path = std::move(path)}; }

  bool all;
  std::string path{};
};

// Adds the program's commands to its parser, and notes the one that is chosen.
class CommandLine {
 public:
  // `options` is filled by the commands that make a network or load a trained one.
  CommandLine(CLI::App& program, Request& options, Reads reads = Reads::words());

  // Adds a command whose settings refer to these options. When the parser reads the command, it
  // becomes the chosen one.
  CLI::App& add(CLI::App& parent, const Command& command, Request& options);
  // False if no command has the path given to Reads::one().
  bool knows_options() const { return knows_options_; }
  // A command with the options that it was given.
  struct Chosen {
    Command command;
    Request& options;
    Paths paths;
  };
  // The command that the parser has read; null if it was not added by add() or this process does
  // not perform it.
  const Chosen* chosen() const;
  // Adds a command that only groups other commands.
  CLI::App& add_group(const std::string& name, const std::string& description);

  CLI::App& program() const { return program_; }
  // The program itself and the commands that group others.
  const std::vector<CLI::App*>& groups() const { return groups_; }
  Request& options() const { return options_; }
  const Settings& all() const { return all_; }
  // The options that the parser knows for a command; empty if it has none.
  Settings settings_of_command(const CLI::App& parser) const;
  // The settings of a network: for model and data, for domains' networks and for the machine.
  Settings settings_of_networks() const;

  // The settings that a --config file may hold: all(), and settings added by other commands.
  Settings known;

 private:
  CLI::App& program_;
  Request& options_;
  const Reads reads_;
  const Settings all_;  // settings_of(options)
  std::vector<CLI::App*> groups_;
  std::map<const CLI::App*, Settings> declared_;
  std::optional<Chosen> chosen_;
  bool knows_options_ = false;
};

}  // namespace accrue::app
