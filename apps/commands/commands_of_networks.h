#pragma once

#include <string>
#include <vector>

#include "apps/commands/command.h"
#include "apps/commands/export.h"
#include "apps/commands/info.h"
#include "apps/commands/plan.h"
#include "apps/domains.h"

namespace accrue::app {

// The options of the commands below.
struct AskedOfNetworks {
  Request options{domains_of_program()};
  PlanOptions plan;
  InfoOptions info;
  OnnxOptions onnx;
};

// The commands that networks of every domain have: train, eval, export, plan and info, in the order
// of the program's help. They refer to `asked`.
std::vector<Command> commands_of_networks(AskedOfNetworks& asked);
// The command of this name.
Command command_of_networks(const std::string& name, AskedOfNetworks& asked);

}  // namespace accrue::app
