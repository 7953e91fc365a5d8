#pragma once

#include "python/arrays.h"
#include "python/network.h"

namespace accrue::python {

// Arrays by the names of a network's inputs and of what its outputs are compared with.

bool are_named(nb::handle data);

// A data set of a dictionary of arrays: first the network's inputs, in its order, then the other
// arrays, which outputs are compared with, unless `takes` says that only inputs count. Each field
// has its array's name. For the elements see dataset_of(); labels may be -100, PyTorch's number for
// none. Integers for an input in int32 are indices.
// Throws Error unless there is an array for each input, of its shape.
enum class TakesTargets { no, yes };
Dataset dataset_by_name(nb::handle arrays, const char* what,
                        const std::vector<Network::Input>& inputs, TakesTargets takes);

// The data sets of `data` and of `test`, as datasets_of() of arrays without names.
Datasets datasets_by_name(nb::handle data, nb::handle test,
                          const std::vector<Network::Input>& inputs);

// The name of the field with the weights of samples for one output's loss.
std::string weights_for(const std::string& output);
// Adds the caller's weights of samples to data sets: numbers [N] for all losses, or a dictionary of
// such by outputs. Samples that are only scored count alike.
void add_weights_by_name(Datasets& data, nb::handle weights,
                         const std::vector<std::string>& outputs);

}  // namespace accrue::python
