#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "core/device.h"

namespace accrue {

// The processor or the GPU that computes on `device`, by name.
std::string machine_name(Device device);

// All that a result depends on beside its request: version, compiler, machine, device, threads and
// the libraries the program was built with.
nlohmann::ordered_json environment(Device device);

}  // namespace accrue
