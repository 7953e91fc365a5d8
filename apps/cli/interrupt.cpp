#include "apps/cli/interrupt.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <ctime>
#include <initializer_list>
#include <string_view>

#include "apps/cli/messages.h"

namespace accrue::app {
namespace {

// A signal may interrupt any thread. The handler raises `seen` first, and `asked` when it has done
// everything else.
std::atomic<int> seen = 0, asked = 0;
std::atomic<bool> answered = true;
std::atomic<int64_t> first_ns = 0;
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free &&
                  std::atomic<int64_t>::is_always_lock_free,
              "a signal handler may not wait");

int64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// When a job's time is over, Slurm sends SIGTERM to its step and, a few ms later, to the job. When
// a terminal is closed, the shell sends SIGHUP, and the system sends it again when the shell has
// ended. A user who wants to roll a window back cannot send signals that fast.
bool repeats_the_first(int signal) {
  return signal != SIGINT && seen > 0 && now_ns() - first_ns < 1'000'000'000;
}

void install(void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  for (int signal : {SIGINT, SIGTERM}) sigaction(signal, &action, nullptr);
  // Under nohup, SIGHUP is ignored and must stay so.
  struct sigaction hangup {};
  sigaction(SIGHUP, nullptr, &hangup);
  if (hangup.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, nullptr);
}

void answer(std::string_view text) {
  if (answered) say_in_handler(text);
}

void ask(int signal) {
  if (repeats_the_first(signal)) return;
  if (seen == 0) first_ns = now_ns();  // before `seen` tells others that it is set
  const int times = ++seen;
  if (times == 1)
    answer("\ninterrupted: this window is finished first; once more to roll it back\n");
  if (times == 2) {
    answer(
        "\ninterrupted twice: this window is rolled back, unless its last micro-batch is under "
        "way\n");
    install(SIG_DFL);
  }
  ++asked;
}

// Handles signals after an interrupted run.
void end(int signal) {
  if (repeats_the_first(signal)) return;
  install(SIG_DFL);
  ::raise(signal);
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
  install(interrupted() && !interrupted_twice() ? end : SIG_DFL);
  sigaltstack(&stack_before_, nullptr);
}
bool interrupted() { return asked >= 1; }
bool interrupted_twice() { return asked >= 2; }

}  // namespace accrue::app
