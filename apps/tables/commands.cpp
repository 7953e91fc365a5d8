#include "apps/tables/commands.h"

namespace accrue::app {

// `accrue predict` (apps/images/commands.cpp) answers about tables, too (ProgramDomain::predict).
DomainCommands tables_commands() { return {}; }

}  // namespace accrue::app
