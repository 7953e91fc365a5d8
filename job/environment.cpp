#include "job/environment.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "core/build.h"
#include "core/cuda.h"
#include "core/inside.h"
#include "job/build.h"
#include "kernels/compiled_isa.h"
#include "kernels/parallel.h"

namespace accrue {
namespace {

std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "unknown processor";
}

}  // namespace

std::string machine_name(Device device) {
  return device == Device::cuda ? cuda::describe_device() : processor();
}

nlohmann::ordered_json environment(Device device) {
  return {{"version", version()},
          {"compiler", compiler()},
          {"libraries", libraries()},
          {"matrix_products", matrix_products()},
          {"machine", machine_name(device)},
          {"device", name(device)},
          {"compiled_for", compiled_isa()},
          {"threads", thread_count()}};
}

}  // namespace accrue
