#include "core/error.h"
#include "fonts/outline.h"

namespace accrue::fonts {

void require_potrace() {
  fail(
      "drawings become outlines by potrace, without which accrue was built: install the package "
      "libpotrace-dev (scripts/setup.sh does) and build again");
}

std::vector<Contour> trace(const GrayImage&) {
  require_potrace();
  return {};
}

}  // namespace accrue::fonts
