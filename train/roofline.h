#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/inside.h"
#include "core/profile.h"
#include "train/training_options.h"

namespace accrue {

// A kernel in a micro-step that adds to gradients, or in the optimizer's step.
struct RooflineRow {
  bool in_step = false;
  std::string kernel;
  int64_t calls = 0;
  double flops = 0, bytes = 0;  // Work (core/profile.h)
  // The sum over the calls of the time that a GPU takes at least:
  //   max(flops / rates.flops_per_s, bytes / rates.bytes_per_s)
  double least_us = 0;
  double measured_us = 0;  // in a micro-step or a step of a Profile; 0 without one
};

struct Roofline {
  MachineRates rates;
  int64_t micro_batch = 0, micro_steps = 0;  // samples; micro-batches of a window
  std::vector<RooflineRow> rows;  // the micro-step's before the step's, each longest first
  double least_us(bool of_step) const;
  int64_t calls(bool of_step) const;
  // The least time of a window with its step.
  double window_us() const;
};

// The rates of an H200 by its data sheet: 4.8 TB/s, and products in this precision on tensor cores
// without sparsity (989 TFLOP/s in 16 bits, 495 in TF32), or 67 TFLOP/s in float32.
MachineRates rates_of_h200(Precision precision);

// Runs a window of at most two micro-batches on cuda's meta device, which has neither memory nor
// arithmetic, and counts its last micro-step and its step. Bytes count even if they stay in a
// cache, so a GPU can be faster where kernels follow each other on small tensors. Throws Error for
// a game of several networks, and for BatchNorms that see a whole window.
Roofline roofline_of(const TrainingOptions& options, const Dataset& data);

// Fills in measured_us from a profile of windows like the roofline's.
void add_measured(Roofline& roofline, const Profile& profile);

// The rows as text in lines of 80 columns, and sums.
std::string roofline_table(const Roofline& roofline);
nlohmann::ordered_json roofline_json(const Roofline& roofline);

}  // namespace accrue
