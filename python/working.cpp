#include "python/working.h"

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "python/values.h"
#include "train/json.h"

namespace accrue::python {

nb::object from_json(const std::string& text) {
  return nb::module_::import_("json").attr("loads")(text);
}

nb::object score_of(const Score& score) {
  return result("Score", from_json(to_json(score).dump()));
}

Notices warnings_alone() {
  return Notices([](Notices::Kind kind, std::string_view text) {
    if (kind == Notices::Kind::warning) app::say_error("warning: {}\n", text);
  });
}

bool is_quiet(nb::handle quiet) {
  if (quiet.is_none()) return true;
  check(nb::isinstance<nb::bool_>(quiet), "quiet is {}: expected True or False", shown(quiet));
  return nb::cast<bool>(quiet);
}

Words::Words(bool quiet, const Spelling& spelling) {
  const bool is_heard =
      !quiet || nb::cast<bool>(nb::module_::import_("accrue._messages").attr("logs_notes")());
  before_ =
      app::redirect_messages([quiet, is_heard, &spelling](std::string_view said, bool is_error) {
        if ((!is_heard && !is_error) || is_interpreter_ending()) return;
        const std::string text = is_error ? spelling.of(std::string(said)) : std::string(said);
        const nb::gil_scoped_acquire gil;
        try {
          nb::module_::import_("accrue._messages")
              .attr("say")(nb::str(text.c_str(), text.size()), is_error, quiet);
        } catch (nb::python_error& error) {
          // Ctrl-C is repeated, for code that can raise it.
          if (error.matches(PyExc_KeyboardInterrupt)) PyErr_SetInterrupt();
          else error.discard_as_unraisable("accrue");
        }
      });
}

}  // namespace accrue::python
