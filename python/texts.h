#pragma once

#include <nanobind/nanobind.h>

namespace accrue::python {

// generate and embed: language models that write, and embeddings of texts.
void add_texts(nanobind::module_& module);

}  // namespace accrue::python
