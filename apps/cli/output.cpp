#include "apps/cli/output.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>

#include "apps/cli/messages.h"
#include "core/error.h"
#include "data/atomic_file.h"

namespace accrue::app {

void check_output(const std::string& name) {
  if (!name.empty() && name != "-") check_writable(name);
}

void write_output(const std::string& name, std::string_view text) {
  if (name == "-") write_standard_output(text);
  else write_text_atomically(name, text);
}

std::function<void(std::string_view)> lines_to(const std::string& name) {
  if (name == "-") return write_standard_output;
  std::error_code ignored;
  if (!std::filesystem::is_fifo(name, ignored)) return {};
  const int pipe = ::open(name.c_str(), O_WRONLY | O_CLOEXEC);
  check(pipe >= 0, "cannot open '{}': {}", name, std::strerror(errno));
  const std::shared_ptr<void> open(nullptr, [pipe](void*) { ::close(pipe); });
  return [pipe, open](std::string_view line) { write_to_pipe(pipe, line); };
}

}  // namespace accrue::app
