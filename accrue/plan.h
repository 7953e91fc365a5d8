#pragma once

// Predicted memory of a run, and plans that fit into a limit.
//
//     const Usage peak = predict_peak(options, data, Device::cpu);
//     const Plan plan = plan_windows(options, data, Device::cpu, parse_bytes("1GiB"),
//                                    all_choices(options, Device::cpu));
//     if (const auto* best = plan.recommended()) options.batches = best->batches;

#include "train/memory_prediction.h"
#include "train/plan.h"
