#pragma once

#include <string>
#include <vector>

#include "apps/commands/command.h"
#include "apps/commands/export.h"
#include "apps/commands/info.h"
#include "apps/commands/plan.h"
#include "apps/domains.h"

namespace accrue::app {

// What the commands below are asked for.
struct AskedOfNetworks {
  Request options{all_domains()};
  PlanOptions plan;
  InfoOptions info;
  OnnxOptions onnx;
};

// train, eval, export, plan and info, which networks of every domain have, in the order of the
// program's help. They refer to `asked`.
std::vector<Command> commands_of_networks(AskedOfNetworks& asked);
// The one of this name.
Command command_of_networks(const std::string& name, AskedOfNetworks& asked);

}  // namespace accrue::app
