#pragma once

#include <string>

// Where the program and the sources are: those of this build or, where the tests were carried to
// another machine, what the variables ACCRUE_TEST_PROGRAM and ACCRUE_TEST_SOURCES name. Only
// paths.cpp is compiled anew for another folder.
namespace accrue::test {

extern const std::string program_path, source_folder;

}  // namespace accrue::test
