#pragma once

// Optimizers and schedules.

#include "optim/optimizer.h"
#include "optim/schedule.h"
