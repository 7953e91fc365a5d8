#include "apps/interrupt.h"

#include <atomic>
#include <csignal>
#include <initializer_list>

namespace accrue::app {
namespace {

// Any thread may be the one that a signal interrupts.
std::atomic<int> asked = 0;
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler may not wait");

void install(void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (int signal : {SIGINT, SIGTERM}) sigaction(signal, &action, nullptr);
}

void ask(int) {
  if (++asked == 2) install(SIG_DFL);
}

}  // namespace

InterruptScope::InterruptScope() {
  asked = 0;
  install(ask);
}
InterruptScope::~InterruptScope() { install(SIG_DFL); }
bool interrupted() { return asked >= 1; }
bool interrupted_twice() { return asked >= 2; }

}  // namespace accrue::app
