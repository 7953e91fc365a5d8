#include "train/process.h"

#include <fmt/chrono.h>

#include <ctime>
#include <fstream>

#include "core/error.h"

namespace accrue {
namespace {

size_t status_bytes(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(key)) return 1024 * std::stoul(line.substr(key.size()));
  fail("no {} in /proc/self/status: the resident memory cannot be measured here", key);
}

}  // namespace

size_t resident_bytes() { return status_bytes("VmRSS:"); }
size_t peak_resident_bytes() { return status_bytes("VmHWM:"); }

std::string now() { return fmt::format("{:%Y-%m-%d %H:%M} UTC", fmt::gmtime(std::time(nullptr))); }

}  // namespace accrue
