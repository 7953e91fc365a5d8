#pragma once

#include <vector>

#include "apps/cli/command_line.h"

namespace accrue::app {

// The commands of a domain, which add themselves to the program's. What it has none of is null.
struct DomainCommands {
  void (*of_networks)(CommandLine&) = nullptr;  // beside train and eval
  void (*of_data)(CommandLine&, CLI::App& data) = nullptr;
  void (*own)(CommandLine&) = nullptr;
};

// The commands of each domain that has some.
std::vector<DomainCommands> commands_of_domains();

}  // namespace accrue::app
