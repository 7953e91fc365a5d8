#include "apps/interrupt.h"

#include <csignal>
#include <initializer_list>

namespace accrue::app {
namespace {

volatile std::sig_atomic_t asked = 0;

void ask(int) { asked = 1; }

void install(void (*handler)(int), int flags) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  sigemptyset(&action.sa_mask);
  for (int signal : {SIGINT, SIGTERM}) sigaction(signal, &action, nullptr);
}

}  // namespace

InterruptScope::InterruptScope() { install(ask, SA_RESTART | static_cast<int>(SA_RESETHAND)); }
InterruptScope::~InterruptScope() { install(SIG_DFL, 0); }
bool interrupted() { return asked != 0; }

}  // namespace accrue::app
