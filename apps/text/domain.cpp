#include "text/domain.h"

#include <unistd.h>

#include "apps/cli/messages.h"
#include "apps/domains.h"
#include "core/inside.h"
#include "text/samples.h"

namespace accrue::app {
namespace {

// Prints a line in place of the progress bar.
void show(const WrittenSample& sample) {
  const std::string place =
      fmt::format("{}[Window {}] ", draws_over(STDOUT_FILENO) ? "\r\033[K" : "", sample.window);
  if (sample.error.empty()) say("{}{}\n", place, sample.line);
  else say_error("{}warning: cannot write a sample: {}\n", place, sample.error);
}

std::unique_ptr<Observer> watch_text(const Request& request, Trainer& trainer, RunLog& log,
                                     const Dataset& held_out) {
  return watch_writing(request, trainer, log, held_out, spoken(), show);
}

}  // namespace

ProgramDomain text_domain() {
  return {.make = [] { return std::unique_ptr<Domain>(std::make_unique<Text>()); },
          .watch = watch_text};
}

}  // namespace accrue::app
