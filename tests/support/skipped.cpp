#include "tests/support/skipped.h"

#include <iostream>

namespace accrue::test {
namespace {

bool skipped = false;

}  // namespace

void say_skipped(const std::string& reason) {
  std::cerr << "SKIPPED: " << reason << '\n';
  skipped = true;
}

bool has_skipped() { return skipped; }

}  // namespace accrue::test
