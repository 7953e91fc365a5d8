#include "core/cpus.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <thread>

namespace accrue {
namespace {

namespace fs = std::filesystem;

int cpus_of_affinity() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  return static_cast<int>(std::thread::hardware_concurrency());  // more than a cpu_set_t holds
}

// Reads the number of processors that a control group may use from its files, or returns infinity.
double quota_of(const fs::path& group) {
  constexpr double unlimited = std::numeric_limits<double>::infinity();
  double quota = 0, period = 0;
  if (std::ifstream(group / "cpu.max") >> quota >> period && period > 0) return quota / period;
  if (std::ifstream(group / "cpu.cfs_quota_us") >> quota && quota > 0 &&
      std::ifstream(group / "cpu.cfs_period_us") >> period && period > 0)
    return quota / period;
  return unlimited;
}

// The smallest quota of this process's groups and the groups around them. A line of
// /proc/self/cgroup is number:controllers:path. In version 2 it has no controllers.
double quota_of_groups() {
  double smallest = std::numeric_limits<double>::infinity();
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (!controllers.empty() && (',' + controllers + ',').find(",cpu,") == std::string::npos)
      continue;
    const fs::path root = fs::path("/sys/fs/cgroup") / controllers;
    fs::path group = fs::path(line.substr(second + 1)).relative_path();
    for (;; group = group.parent_path()) {
      smallest = std::min(smallest, quota_of(root / group));
      if (group.empty()) break;
    }
  }
  return smallest;
}

}  // namespace

int available_cpus() {
  const double quota = std::ceil(quota_of_groups());
  const int cpus = std::max(1, cpus_of_affinity());
  return quota < cpus ? std::max(1, static_cast<int>(quota)) : cpus;
}

}  // namespace accrue
