#pragma once

#include "apps/domains.h"

namespace accrue::app {

ProgramDomain fonts_of_program();

}  // namespace accrue::app
