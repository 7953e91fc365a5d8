#pragma once

#include <nanobind/nanobind.h>

#include <chrono>
#include <optional>

#include "train/stop.h"

namespace accrue::python {

namespace nb = nanobind;

// While alive, a function of the module is at work. Threads of the caller's that still are when the
// interpreter ends are asked to stop (Interrupts), and it waits for them: a thread that wants the
// interpreter after its end is ended where it stands, within C++.
class AtWork {
 public:
  // Throws SystemExit in other threads than the one that ends the interpreter.
  AtWork();
  ~AtWork();
  AtWork(const AtWork&) = delete;
  AtWork& operator=(const AtWork&) = delete;

 private:
  bool before_;
};

// While alive, this thread runs code of the caller's, which may wait for ever. The end of the
// interpreter waits for it only a while.
class InCallersCode {
 public:
  InCallersCode();
  ~InCallersCode();
  InCallersCode(const InCallersCode&) = delete;
  InCallersCode& operator=(const InCallersCode&) = delete;
};

// True in all threads but the one that ends the interpreter.
bool is_interpreter_ending();
// Lets the end of the interpreter wait for what is AtWork.
void wait_for_work_at_the_end();

// What work that has let go of the interpreter asks now and then, because to ask may take as long
// as other threads keep the interpreter: whether Ctrl-C or another signal has raised an exception
// in Python, or the interpreter ends.
class Interrupts {
 public:
  // The number of times that it was asked to end.
  int count();
  // Stop::now from the first time on.
  StopRequest stop_at_once() {
    return [this] { return count() > 0 ? Stop::now : Stop::no; };
  }
  // Keeps what is being raised, unless there is something already. It counts once.
  void keep(nb::python_error&& error);
  bool has_error() const { return error_.has_value(); }
  // Throws what was raised, SystemExit at the interpreter's end.
  void rethrow();

 private:
  std::optional<nb::python_error> error_;
  int count_ = 0;
  std::chrono::steady_clock::time_point looked_{};
};

}  // namespace accrue::python
