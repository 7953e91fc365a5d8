#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "apps/cli/messages.h"
#include "python/interrupts.h"
#include "python/spelling.h"
#include "train/score.h"

namespace accrue::python {

// What every call of the module does: it returns results, and lets signals and words through.

nb::object from_json(const std::string& text);
// One of accrue._results.
template <class... Args>
nb::object result(const char* type, Args&&... args) {
  return nb::module_::import_("accrue._results").attr(type)(std::forward<Args>(args)...);
}
nb::object score_of(const Score& score);

// Does what takes a StopRequest, and throws what a signal has raised meanwhile.
template <class Work>
void until_interrupted(const Work& work) {
  Interrupts interrupts;
  try {
    work(interrupts.stop_at_once());
  } catch (const Stopped&) {
  }
  interrupts.rethrow();
}

// That of the argument; by itself, True.
bool is_quiet(nb::handle quiet);

// While alive, what the program says in this thread goes to sys.stdout and sys.stderr, or what is
// no warning nowhere. Warnings are spelt as arguments are.
class Words {
 public:
  Words(bool quiet, const Spelling& spelling);
  ~Words() { app::redirect_messages(std::move(before_)); }
  Words(const Words&) = delete;
  Words& operator=(const Words&) = delete;

 private:
  app::MessageSink before_;
};

}  // namespace accrue::python
