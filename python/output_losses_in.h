#pragma once

#include <map>
#include <string>
#include <vector>

#include "python/network.h"
#include "train/objective.h"

namespace accrue::python {

// The objective of a network for data with names. `loss` is the JSON that accrue.loss() stands for
// (python/accrue/_losses.py), {"class": {"loss": "cross-entropy", "weight": 0.5}}; empty: for each
// output that the data has an array for, what fits it; or, for one such output, its loss.
// Labels have all classes that an answer of these shapes, by the outputs' names, tells apart, also
// those that no sample has.
// Throws Error for a loss that fits no output or no array, and for an array that nothing uses.
ObjectivePtr objective_of_outputs(const std::string& loss, const std::vector<std::string>& inputs,
                                  const std::vector<std::string>& outputs,
                                  const std::map<std::string, Shape>& answers, const Dataset& data);

// The array `target` of the data with which an output is compared, with all of these classes.
Field field_compared(const Dataset& data, const std::string& target,
                     const std::map<std::string, Shape>& answers, const std::string& output);

}  // namespace accrue::python
