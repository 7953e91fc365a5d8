#include "apps/cli/messages.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "core/error.h"
#include "core/inside.h"

namespace accrue::app {
namespace {

int reserved = STDOUT_FILENO;
bool ends_by_sigpipe = false;
std::atomic<bool> is_silent = false, reader_gone = false;
thread_local MessageSink sink;
// The errno of the first message that was lost; 0 if none was.
std::atomic<int> lost = 0;

// Returns 0, or the errno if the text could not be written.
int write_all(int descriptor, std::string_view text) noexcept {
  while (!text.empty()) {
    const ssize_t n = ::write(descriptor, text.data(), text.size());
    if (n >= 0) {
      text.remove_prefix(static_cast<size_t>(n));
    } else if (errno == EAGAIN) {  // others may have made the terminal or pipe non-blocking
      pollfd writable{descriptor, POLLOUT, 0};
      ::poll(&writable, 1, -1);
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

void lose(int reason) noexcept {
  if (reason == EPIPE) reader_gone = true;
  int none = 0;
  lost.compare_exchange_strong(none, reason);
}

void write_or_lose(int descriptor, std::string_view text) noexcept {
  if (const int reason = write_all(descriptor, text); reason != 0) lose(reason);
}

template <class Write>
void formatted(fmt::string_view format, fmt::format_args args, Write&& write) noexcept {
  try {
    write(fmt::vformat(format, args));
  } catch (const std::exception&) {
    lose(ENOMEM);
  }
}

}  // namespace

void begin_messages() {
  // open() takes the lowest free descriptor. Writing to a read-only descriptor fails.
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(descriptor, F_GETFD) < 0) [[maybe_unused]]
      const int opened = ::open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  ends_by_sigpipe = std::signal(SIGPIPE, SIG_IGN) == SIG_DFL;
  std::signal(SIGXFSZ, SIG_IGN);
}

int end_messages(int status) {
  if (lost == 0 || status != 0) return status;
  if (reader_gone && ends_by_sigpipe) {
    std::signal(SIGPIPE, SIG_DFL);
    ::raise(SIGPIPE);
  }
  say_error("accrue: error: the printed output is incomplete: standard output: {}\n",
            std::strerror(lost));
  return 1;
}

void silence_messages() { is_silent = true; }

MessageSink redirect_messages(MessageSink to) { return std::exchange(sink, std::move(to)); }

void reserve_standard_output() {
  if (reserved != STDOUT_FILENO) return;
  reserved = ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  check(reserved >= 0 && ::dup2(STDERR_FILENO, STDOUT_FILENO) >= 0,
        "standard output cannot be reserved for '-': {}", std::strerror(errno));
}

void write_standard_output(std::string_view text) noexcept { write_or_lose(reserved, text); }

void write_to_pipe(int descriptor, std::string_view text) noexcept {
  write_or_lose(descriptor, text);
}

bool is_reader_gone() noexcept { return reader_gone; }

void say_text(fmt::string_view format, fmt::format_args args) noexcept {
  if (is_silent) return;
  formatted(format, args, [](const std::string& text) {
    if (sink) sink(text, false);
    else write_or_lose(STDOUT_FILENO, text);
  });
}

void say_error_text(fmt::string_view format, fmt::format_args args) noexcept {
  formatted(format, args, [](const std::string& text) {
    if (sink) return sink(text, true);
    if (write_all(STDERR_FILENO, text) != 0) write_or_lose(STDOUT_FILENO, text);
  });
}

const Notices& spoken() {
  static const Notices notices([](Notices::Kind kind, std::string_view text) {
    switch (kind) {
      case Notices::Kind::fact: return say("{}\n", text);
      case Notices::Kind::warning: return say_error("warning: {}\n", text);
      case Notices::Kind::remnant: return say_error("{}\n", text);
    }
  });
  return notices;
}

void say_in_handler(std::string_view text) noexcept {
  const int before = errno;
  if (write_all(STDERR_FILENO, text) != 0) write_all(STDOUT_FILENO, text);
  errno = before;
}

size_t terminal_columns() {
  struct winsize size {};
  const bool known = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : 80;
}

bool draws_over(int descriptor) {
  const auto said = [](const char* name) -> std::string_view {
    const char* const value = std::getenv(name);
    return value ? value : "";
  };
  return ::isatty(descriptor) != 0 && !said("TERM").empty() && said("TERM") != "dumb" &&
         said("NO_COLOR").empty();
}

}  // namespace accrue::app
