#pragma once

// Optimizers and schedules.
//
//     const auto steps = adamw(parameters, {.beta2 = 0.95});
//     ScheduleOptions cosine{.kind = ScheduleOptions::Kind::cosine, .base = 1e-3, .total = 5000};
//     fmt::print("{}\n", Schedule(cosine).describe());

#include "optim/optimizer.h"
#include "optim/schedule.h"
