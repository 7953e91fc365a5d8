#include "python/interrupts.h"

#include <pthread.h>

#include <atomic>
#include <thread>
#include <utility>

namespace accrue::python {
namespace {

using namespace std::chrono;

// The number of threads within the module's functions, and how many of them are not at the moment
// in the caller's code.
std::atomic<int> within = 0, working = 0;
struct Here {
  int depth = 0;
  bool works = false;
};
thread_local Here here;

// Returns the value before.
bool set_works(bool works) {
  working += int{works} - int{here.works};
  return std::exchange(here.works, works);
}

std::atomic<bool> is_ending = false;
std::thread::id ender;  // set before is_ending

[[noreturn]] void exit_thread() {
  PyErr_SetNone(PyExc_SystemExit);
  throw nb::python_error();
}

// Called first when the interpreter ends.
void wait_for_work() {
  constexpr auto most = seconds(2);
  ender = std::this_thread::get_id();
  is_ending = true;
  if (within == 0) return;
  nb::set_leak_warnings(false);  // a thread that does not end never frees its objects
  const nb::gil_scoped_release release;
  const auto start = steady_clock::now();
  while (working > 0 || (within > 0 && steady_clock::now() - start < most))
    std::this_thread::sleep_for(milliseconds(1));
}

}  // namespace

AtWork::AtWork() {
  if (is_interpreter_ending()) exit_thread();
  if (here.depth++ == 0) ++within;
  before_ = set_works(true);
}
AtWork::~AtWork() {
  set_works(before_);
  if (--here.depth == 0) --within;
}

InCallersCode::InCallersCode() { set_works(false); }
InCallersCode::~InCallersCode() { set_works(true); }

InFetch::InFetch() {
  if (here.depth++ == 0) ++within;  // before is_ending is read, which is set before `within` is
  if (!is_interpreter_ending()) {
    before_ = set_works(false);
    return;
  }
  if (--here.depth == 0) --within;
  throw Stopped("the interpreter is ending: no sample can be fetched");
}
InFetch::~InFetch() {
  set_works(before_);
  if (--here.depth == 0) --within;
}

bool is_interpreter_ending() { return is_ending && std::this_thread::get_id() != ender; }

void wait_for_work_at_the_end() {
  nb::module_::import_("atexit").attr("register")(nb::cpp_function(&wait_for_work));
  // A child process has none of the other threads.
  pthread_atfork(nullptr, nullptr, [] {
    within = here.depth > 0 ? 1 : 0;
    working = here.works ? 1 : 0;
  });
}

int Interrupts::count() {
  if (is_interpreter_ending()) return 2;
  if (const auto now = steady_clock::now(); now - looked_ > milliseconds(20)) {
    looked_ = now;
    const nb::gil_scoped_acquire gil;
    if (PyErr_CheckSignals() != 0) {
      ++count_;
      error_.emplace();
    }
  }
  return count_;
}

void Interrupts::keep(nb::python_error&& error) {
  if (error_) return;
  error_.emplace(std::move(error));
  ++count_;
}

void Interrupts::rethrow() {
  if (error_) throw nb::python_error(std::move(*error_));
  if (is_interpreter_ending()) exit_thread();
}

}  // namespace accrue::python
