#pragma once

// The trainer and its logs.

#include "train/run_log.h"
#include "train/trainer.h"
