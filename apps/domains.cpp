#include "apps/domains.h"

#include <unistd.h>

#include "apps/cli/messages.h"
#include "fonts/outline.h"
#include "fonts/samples.h"
#include "text/samples.h"

namespace accrue::app {
namespace {

std::unique_ptr<Observer> watch_fonts(const Request& request, Trainer& trainer, RunLog& log,
                                      const Dataset& held_out) {
  return watch_drawings(request, trainer, log, held_out, spoken());
}

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

std::vector<std::pair<std::string, std::string>> about_potrace() {
  try {
    return {{"potrace", fonts::require_potrace()}};
  } catch (const Error&) {
    return {{"potrace", "none (font export runs it: apt install potrace)"}};
  }
}

}  // namespace

const std::vector<ProgramDomain>& program_domains() {
  static const std::vector<ProgramDomain> domains{
      {}, {.watch = watch_fonts, .about_machine = about_potrace}, {.watch = watch_text}};
  return domains;
}

}  // namespace accrue::app
