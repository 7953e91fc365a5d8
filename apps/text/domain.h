#pragma once

#include "apps/domains.h"

namespace accrue::app {

ProgramDomain text_of_program();

}  // namespace accrue::app
