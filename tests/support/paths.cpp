#include "tests/support/paths.h"

namespace accrue::test {

const std::string program_path = ACCRUE_PROGRAM, source_folder = ACCRUE_SOURCE_DIR;

}  // namespace accrue::test
