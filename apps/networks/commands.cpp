#include "apps/networks/commands.h"

namespace accrue::app {

// Every command of networks takes a file (ProgramDomain).
DomainCommands networks_commands() { return {}; }

}  // namespace accrue::app
