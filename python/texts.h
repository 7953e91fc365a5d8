#pragma once

#include <nanobind/nanobind.h>

#include "python/signatures.h"

namespace accrue::python {

// generate and embed: language models that write, and embeddings of texts.
void add_texts(nanobind::module_& module, const FunctionDocs& docs);

}  // namespace accrue::python
