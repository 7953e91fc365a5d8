#include "apps/cli/output.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "core/error.h"
#include "data/append_file.h"
#include "data/atomic_file.h"

namespace accrue::app {
namespace {

int reserved = STDOUT_FILENO;

}  // namespace

void reserve_standard_output() {
  if (reserved != STDOUT_FILENO) return;
  reserved = ::dup(STDOUT_FILENO);
  check(reserved >= 0 && ::dup2(STDERR_FILENO, STDOUT_FILENO) >= 0,
        "standard output cannot be kept for '-': {}", std::strerror(errno));
}

void silence_standard_output() {
  const int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  check(nowhere >= 0 && ::dup2(nowhere, STDOUT_FILENO) >= 0, "/dev/null: {}", std::strerror(errno));
  ::close(nowhere);
}

std::string output_path(const std::string& name) {
  return name == "-" ? fmt::format("/dev/fd/{}", reserved) : name;
}

void check_output(const std::string& name) {
  if (!name.empty() && name != "-") check_writable(name);
}

void write_output(const std::string& name, std::string_view text) {
  if (name != "-") return write_text_atomically(name, text);
  AppendFile(output_path(name), AppendFile::Existing::continued)
      .append(std::as_bytes(std::span(text)));
}

size_t terminal_columns() {
  struct winsize size {};
  const bool known = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : 80;
}

void finish_standard_output() {
  const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  check(written, "what was printed is not complete: standard output: {}", std::strerror(errno));
}

}  // namespace accrue::app
