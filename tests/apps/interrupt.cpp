// Signals while other threads work: they are counted, whichever thread receives them.

#include "apps/cli/interrupt.h"

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "core/inside.h"
#include "data/loader.h"
#include "images/digits.h"
#include "tests/support/catch.h"

namespace accrue::test {
namespace {

// One new thread sends `signal` to this process, and another takes micro-batches from the loader,
// until seen() returns true. The sender must not end before: ThreadSanitizer may hold a signal
// until the thread that received it next calls the system, and loses the signals of a thread that
// ends.
template <class Seen>
void signal_while_loading(Loader& loader, int signal, Seen&& seen) {
  std::thread sender([&] {
    ::kill(::getpid(), signal);
    while (!seen()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
  std::thread loading([&] {
    for (int64_t epoch = 0; !seen(); ++epoch) {
      loader.start_epoch(epoch);
      while (!seen() && loader.next()) std::this_thread::yield();
    }
  });
  sender.join();
  loading.join();
}

bool handled_by_default(int signal) {
  struct sigaction action {};
  sigaction(signal, nullptr, &action);
  return action.sa_handler == SIG_DFL;
}

// True if the handler runs on another stack than the thread's.
bool handled_on_its_own_stack(int signal) {
  struct sigaction action {};
  sigaction(signal, nullptr, &action);
  stack_t stack{};
  sigaltstack(nullptr, &stack);
  return (action.sa_flags & SA_ONSTACK) != 0 && (stack.ss_flags & SS_DISABLE) == 0;
}

}  // namespace

TEST_CASE("signals are counted while another thread loads", "[interrupt]") {
  const Dataset data = make_digits(Split::train, {.train_size = 200});
  Loader loader(data, {.effective_batch_size = 16, .micro_batch_size = 4});
  for (int times = 0; times < 20; ++times) {
    {
      const app::InterruptScope scope;
      REQUIRE(!app::interrupted());
      REQUIRE((handled_on_its_own_stack(SIGINT) && handled_on_its_own_stack(SIGTERM)));
      signal_while_loading(loader, times % 2 == 0 ? SIGINT : SIGTERM, app::interrupted);
      ::kill(::getpid(), SIGTERM);  // as Slurm's second signal
      ::kill(::getpid(), SIGHUP);   // as the system's, after a shell's
      REQUIRE(!app::interrupted_twice());
      REQUIRE(!handled_by_default(SIGINT));
      signal_while_loading(loader, SIGINT, app::interrupted_twice);
      // A third signal would end the program.
      REQUIRE(handled_by_default(SIGTERM));
    }
    REQUIRE(handled_by_default(SIGINT));
  }
  {
    const app::InterruptScope scope;
    signal_while_loading(loader, SIGTERM, app::interrupted);
  }
  ::raise(SIGTERM);  // as Slurm's second signal, while the weights are written
  const app::InterruptScope scope;
  REQUIRE(!app::interrupted());
}

}  // namespace accrue::test
