#pragma once

#include <vector>

#include "apps/cli/command_line.h"

namespace accrue::app {

// Functions that add a domain's commands to the program's; null where the domain has none.
struct DomainCommands {
  void (*of_networks)(CommandLine&) = nullptr;  // commands for networks, such as predict
  void (*of_data)(CommandLine&, CLI::App& data) = nullptr;
  void (*own)(CommandLine&) = nullptr;
};

// The commands of each domain that has any.
std::vector<DomainCommands> commands_of_domains();

}  // namespace accrue::app
