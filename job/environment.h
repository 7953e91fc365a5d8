#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "core/device.h"

namespace accrue {

// The name of the processor or GPU that `device` stands for.
std::string machine_name(Device device);

// Everything that a result depends on, except the request: version, compiler, machine, device,
// threads and the libraries that the program was built with.
nlohmann::ordered_json environment(Device device);

}  // namespace accrue
