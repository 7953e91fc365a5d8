#pragma once

#include "apps/domains.h"

namespace accrue::app {

ProgramDomain images_of_program();

}  // namespace accrue::app
