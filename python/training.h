#pragma once

#include <nanobind/nanobind.h>

#include "python/signatures.h"

namespace accrue::python {

// train, Trainer, plan, info, evaluate, predict, and files of weights.
void add_training(nanobind::module_& module, const FunctionDocs& docs);

}  // namespace accrue::python
