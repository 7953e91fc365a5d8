#include "fonts/domain.h"

#include "apps/cli/messages.h"
#include "apps/domains.h"
#include "core/inside.h"
#include "fonts/outline.h"
#include "fonts/samples.h"

namespace accrue::app {
namespace {

std::unique_ptr<Observer> watch_fonts(const Request& request, Trainer& trainer, RunLog& log,
                                      const Dataset& held_out) {
  return watch_drawings(request, trainer, log, held_out, spoken());
}

std::vector<std::pair<std::string, std::string>> about_potrace() {
  try {
    return {{"potrace", fonts::require_potrace()}};
  } catch (const Error&) {
    return {{"potrace", "none (font export runs it: apt install potrace)"}};
  }
}

}  // namespace

ProgramDomain fonts_domain() {
  return {.make = [] { return std::unique_ptr<Domain>(std::make_unique<Fonts>()); },
          .watch = watch_fonts,
          .about_machine = about_potrace};
}

}  // namespace accrue::app
