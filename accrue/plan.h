#pragma once

// Memory that is known before a run, and what fits.

#include "train/memory_prediction.h"
#include "train/plan.h"
