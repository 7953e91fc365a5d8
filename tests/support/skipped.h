#pragma once

#include <string>

namespace accrue::test {

// What accrue_tests ends with if nothing failed and something was skipped: ctest then shows it as
// skipped. A failure beside what is skipped remains one.
inline constexpr int skipped_status = 77;

// Says that this machine lacks what a test needs.
void say_skipped(const std::string& reason);
bool has_skipped();

}  // namespace accrue::test

// Leaves the test and says so: the test driver reports it as skipped, not as passed, so such a test
// is registered by itself (tests/CMakeLists.txt). Catch2 v2 knows no skipping.
#define SKIP_LOUDLY(reason)            \
  do {                                 \
    accrue::test::say_skipped(reason); \
    WARN("SKIPPED: " << reason);       \
    return;                            \
  } while (false)
