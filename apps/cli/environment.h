#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "core/device.h"

namespace accrue::app {

// This process's command line, as it could be typed again.
std::string command_line();
// A word as a shell takes it, in quotes if it needs them.
std::string shell_word(const std::string& word);
// The processor or the GPU that computes on `device`, by name.
std::string machine_name(Device device);

// All that a result depends on beside its options: version, compiler, machine, device, threads and
// the libraries the program was built with.
nlohmann::ordered_json environment(Device device);

}  // namespace accrue::app
