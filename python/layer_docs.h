#pragma once

#include <string_view>

namespace accrue::python {

// The docstring of the function that makes a layer, in numpydoc's form. "BatchNorm" is that of
// BatchNorm1d and BatchNorm2d.
const char* layer_doc(std::string_view layer);

}  // namespace accrue::python
