#include "images/domain.h"

#include "apps/domains.h"
#include "core/inside.h"

namespace accrue::app {

ProgramDomain images_domain() {
  return {.make = [] { return std::unique_ptr<Domain>(std::make_unique<Images>()); }};
}

}  // namespace accrue::app
