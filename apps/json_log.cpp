#include "apps/json_log.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "data/atomic_file.h"

namespace accrue::app {

int64_t keep_json_windows(const std::string& path, int64_t windows) {
  std::ifstream before(path);
  if (!before) return 0;
  AtomicFile after(path);
  int64_t kept = 0;
  for (std::string line; kept < windows && std::getline(before, line);) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (!json.is_object()) break;
    if (json.contains("test")) continue;
    if (json.contains("step")) ++kept;
    line += '\n';
    after.write(std::as_bytes(std::span(line)));
  }
  after.commit();
  return kept;
}

}  // namespace accrue::app
