#pragma once

#include <string>

// The paths of the program and of the sources: the paths of this build, or the values of the
// environment variables ACCRUE_TEST_PROGRAM and ACCRUE_TEST_SOURCES if the tests were moved to
// another machine. If the folder changes, only paths.cpp is compiled again.
namespace accrue::test {

extern const std::string program_path, source_folder;

}  // namespace accrue::test
