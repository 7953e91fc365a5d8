#pragma once

// The objective of a training, and its score.
//
//     options.objective = classification("features", "kinds");
//     const Score score = evaluate(model, data.test, /*micro_batch=*/16, DType::f32, Device::cpu);
//     fmt::print("{}\n", score.describe());

#include "train/objective.h"
#include "train/output_losses.h"
#include "train/score.h"
#include "train/weighted_objectives.h"
