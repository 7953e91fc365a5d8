#pragma once

#include <string>

// Where this build's program and its sources are. Only paths.cpp is compiled anew for another
// folder.
namespace accrue::test {

extern const std::string program_path, source_folder;

}  // namespace accrue::test
