#pragma once

#include "apps/commands_of_domains.h"

namespace accrue::app {

DomainCommands networks_commands();

}  // namespace accrue::app
