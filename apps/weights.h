#pragma once

#include <string>

#include "core/parameters.h"

namespace accrue::app {

// Writes parameters and module buffers as safetensors, by their PyTorch names. Nothing half-written
// remains after an error.
void save_weights(const std::string& path, const Parameters& parameters);

// Reads them back. Throws Error, with every difference named, unless the file holds exactly the
// model's names, shapes and dtype, and only finite values.
void load_weights(const std::string& path, Parameters& parameters);

}  // namespace accrue::app
