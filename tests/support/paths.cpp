#include "tests/support/paths.h"

#include <cstdlib>

#include "core/inside.h"

namespace accrue::test {
namespace {

std::string variable_or(const char* name, const char* of_build) {
  const char* value = std::getenv(name);
  return value ? value : of_build;
}

}  // namespace

const std::string program_path = variable_or("ACCRUE_TEST_PROGRAM", ACCRUE_PROGRAM),
                  source_folder = variable_or("ACCRUE_TEST_SOURCES", ACCRUE_SOURCE_DIR);

}  // namespace accrue::test
