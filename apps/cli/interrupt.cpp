#include "apps/cli/interrupt.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <initializer_list>

namespace accrue::app {
namespace {

// Any thread may be the one that a signal interrupts. A signal is `seen` first, and `asked` when
// all that follows from it is done.
std::atomic<int> seen = 0, asked = 0;
std::atomic<bool> answered = true;
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free,
              "a signal handler may not wait");

void install(void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  for (int signal : {SIGINT, SIGTERM}) sigaction(signal, &action, nullptr);
  // nohup ignores it, and so do we then.
  struct sigaction hangup {};
  sigaction(SIGHUP, nullptr, &hangup);
  if (hangup.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, nullptr);
}

// Nothing else may be called in a signal handler to print something.
template <size_t n>
void say(const char (&text)[n]) {
  if (!answered) return;
  const int before = errno;
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text, n - 1);
  errno = before;
}

void ask(int) {
  const int times = ++seen;
  if (times == 1) say("\ninterrupted: this window is finished first; once more to roll it back\n");
  if (times == 2) {
    say("\ninterrupted twice: this window is rolled back after the micro-batch under way\n");
    install(SIG_DFL);
  }
  ++asked;
}

size_t handler_stack_bytes() {
  constexpr long enough = 64 << 10;
  return static_cast<size_t>(std::max(enough, sysconf(_SC_SIGSTKSZ)));
}

}  // namespace

InterruptScope::InterruptScope(Answers answers) : stack_(handler_stack_bytes()) {
  const stack_t own{.ss_sp = stack_.data(), .ss_flags = 0, .ss_size = stack_.size()};
  sigaltstack(&own, &stack_before_);
  seen = asked = 0;
  answered = answers == Answers::yes;
  install(ask);
}
InterruptScope::~InterruptScope() {
  install(SIG_DFL);
  sigaltstack(&stack_before_, nullptr);
}
bool interrupted() { return asked >= 1; }
bool interrupted_twice() { return asked >= 2; }

}  // namespace accrue::app
