#pragma once

#include <nanobind/nanobind.h>

namespace accrue::python {

// train, Trainer, plan, info, evaluate, predict, and files of weights.
void add_training(nanobind::module_& module);

}  // namespace accrue::python
