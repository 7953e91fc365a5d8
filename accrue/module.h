#pragma once

// Modules and where their parameters lie.

#include "core/parameters.h"
#include "layers/module.h"
