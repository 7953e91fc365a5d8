#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "apps/cli/messages.h"
#include "job/notices.h"
#include "python/interrupts.h"
#include "python/spelling.h"
#include "train/score.h"

namespace accrue::python {

// For every call of the module: results, signals, and the program's messages.

nb::object from_json(const std::string& text);
// Makes an object of the class `type` of accrue._results.
template <class... Args>
nb::object result(const char* type, Args&&... args) {
  return nb::module_::import_("accrue._results").attr(type)(std::forward<Args>(args)...);
}
nb::object score_of(const Score& score);
// A command's messages for Python, which gets the warnings alone.
Notices warnings_alone();

// Does work(StopRequest), and throws the exception that a signal has raised meanwhile.
template <class Work>
void until_interrupted(const Work& work) {
  Interrupts interrupts;
  try {
    work(interrupts.stop_at_once());
  } catch (const Stopped&) {
  }
  interrupts.rethrow();
}

// The answers to x. Samples that are fetched (accrue._chunks) come some at a time, whole
// micro-batches of them.
template <class Answer>
nb::object answers_to_all(nb::handle x, int64_t micro_batch, const Answer& answer) {
  if (!nb::hasattr(x, "_accrue_chunks")) return answer(x);
  for (;;) {
    nb::object some;
    {
      const InCallersCode in_their_code;
      some = x.attr("next")(micro_batch);
    }
    if (some.is_none()) return x.attr("answers")();
    x.attr("take")(answer(some));
  }
}

// The value of the argument `quiet`, True by default. Throws Error unless it is a bool.
bool is_quiet(nb::handle quiet);

// While alive, the program's messages in this thread go to accrue._messages: notes to the logger
// "accrue" and, unless quiet, to sys.stdout; warnings, which name arguments as the caller spells
// them, to Python's warnings.
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
