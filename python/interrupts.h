#pragma once

#include <nanobind/nanobind.h>

#include <chrono>
#include <optional>
#include <utility>

#include "train/stop.h"

namespace accrue::python {

namespace nb = nanobind;

// While alive, a function of the module is at work in this thread. When the interpreter ends, it
// asks such threads to stop (Interrupts) and waits for them. Otherwise Python would end a thread in
// the midst of C++ when the thread next acquires the GIL.
class AtWork {
 public:
  // Throws SystemExit if the interpreter is ending, except in the thread that ends it.
  AtWork();
  ~AtWork();
  AtWork(const AtWork&) = delete;
  AtWork& operator=(const AtWork&) = delete;

 private:
  bool before_;
};

// While alive, this thread runs the caller's code, which may wait for ever. The end of the
// interpreter waits for it for at most two seconds.
class InCallersCode {
 public:
  InCallersCode();
  ~InCallersCode();
  InCallersCode(const InCallersCode&) = delete;
  InCallersCode& operator=(const InCallersCode&) = delete;
};

// While alive, this thread, which may be one of the library's own, calls the caller's code for a
// sample. The end of the interpreter waits for it as for InCallersCode. Construct it before the GIL
// is acquired: throws Stopped once the interpreter is ending, when no other thread can have the
// GIL.
class InFetch {
 public:
  InFetch();
  ~InFetch();
  InFetch(const InFetch&) = delete;
  InFetch& operator=(const InFetch&) = delete;

 private:
  bool before_;
};

// True while the interpreter is ending, except in the thread that ends it.
bool is_interpreter_ending();
// Makes the end of the interpreter wait for threads that are AtWork.
void wait_for_work_at_the_end();

// Tells work that has released the GIL whether it is to stop: because Ctrl-C or another signal has
// raised an exception in Python, or because the interpreter is ending. It checks signals at most
// every 20 ms, because it may wait for the GIL as long as other threads keep it.
class Interrupts {
 public:
  // How often the work was asked to stop; 2 once the interpreter is ending.
  int count();
  // A request that is Stop::now as soon as count() is above 0.
  StopRequest stop_at_once() {
    return [this] { return count() > 0 ? Stop::now : Stop::no; };
  }
  // Does the caller's work(), and returns false if the result is False. So does an exception, which
  // is kept and counted, unless one is kept already.
  template <class Work>
  bool goes_on_after(const Work& work) {
    const nb::gil_scoped_acquire gil;
    const InCallersCode in_callers_code;
    try {
      return !work().is(nb::handle(Py_False));
    } catch (nb::python_error& error) {
      keep(std::move(error));
      return false;
    }
  }
  bool has_error() const { return error_.has_value(); }
  // Throws the exception that is kept, or else SystemExit if the interpreter is ending.
  void rethrow();

 private:
  void keep(nb::python_error&& error);

  std::optional<nb::python_error> error_;
  int count_ = 0;
  std::chrono::steady_clock::time_point looked_{};
};

}  // namespace accrue::python
