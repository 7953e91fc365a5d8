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

// The commands whose options the parser knows: all, or none but the one of this path ("bench
// train"). To declare the options of all takes longer than many a command.
struct Reads {
  static Reads words() { return {.all = true}; }
  static Reads one(std::string path) { return {.all = false, .path = std::move(path)}; }

  bool all;
  std::string path{};
};

// The commands of the program, as they are added to its parser.
class CommandLine {
 public:
  // The options are those of the commands that make a network or have a trained one.
  CommandLine(CLI::App& program, Request& options, Reads reads = Reads::words());

  // Adds a command that works by these options. The parser notes it as the one that is chosen.
  CLI::App& add(CLI::App& parent, const Command& command, Request& options);
  // False if no command is the one that Reads::one() names.
  bool knows_options() const { return knows_options_; }
  // A command as the words ask for it.
  struct Chosen {
    Command command;
    Request& options;
    Paths paths;
  };
  // What the parser has read, if that is a command of add() and this process is to perform it.
  const Chosen* chosen() const;
  // A command that only has commands.
  CLI::App& add_group(const std::string& name, const std::string& description);

  CLI::App& program() const { return program_; }
  // The program, and the commands that have commands.
  const std::vector<CLI::App*>& groups() const { return groups_; }
  Request& options() const { return options_; }
  const Settings& all() const { return all_; }
  // The options of a command that the parser knows; nothing for one that has none.
  Settings settings_of_command(const CLI::App& parser) const;
  // The settings of a network: those of model and data, of domains' networks and of the machine.
  Settings settings_of_networks() const;

  // The settings that a file of --config may have: all() and what is added to them.
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
