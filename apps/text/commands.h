#pragma once

#include "apps/commands_of_domains.h"

namespace accrue::app {

DomainCommands text_commands();

}  // namespace accrue::app
