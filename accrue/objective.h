#pragma once

// What a training is for, and its score.

#include "train/objective.h"
#include "train/score.h"
