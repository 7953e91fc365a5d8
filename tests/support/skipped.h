#pragma once

#include <string>

namespace accrue::test {

// The exit status of accrue_tests if no test failed and at least one was skipped: ctest then shows
// it as skipped. If a test fails, the status is a failure's.
inline constexpr int skipped_status = 77;

// Says that this machine lacks what a test needs.
void say_skipped(const std::string& reason);
bool has_skipped();

}  // namespace accrue::test

// Leaves the test and prints the reason. The test driver reports it as skipped, not as passed, so
// such a test is registered by itself (tests/CMakeLists.txt). Catch2 v2 cannot skip tests.
#define SKIP_LOUDLY(reason)            \
  do {                                 \
    accrue::test::say_skipped(reason); \
    WARN("SKIPPED: " << reason);       \
    return;                            \
  } while (false)
