#pragma once

#include <string>
#include <vector>

namespace accrue::app {

// The packaged program is compiled for every x86-64 processor, and beside it, in
// ../libexec/accrue/ISA/accrue, once for each of these levels, best first. (The x86-64 psABI,
// section 3.1.1: v3 has AVX2 and FMA, v4 has AVX-512. Our loops do not use what v2 adds.)
std::vector<std::string> isa_levels();

// True if this processor has the instructions of the level.
bool supports_isa(const std::string& level);

// The level of the program to run where one compiled for `own` was started: `wanted`, or if that is
// empty and own is baseline, the best that the processor supports and `folder` has, as ISA/accrue.
// Throws Error if the program that is wanted is not there or cannot run here.
std::string choose_isa(const std::string& own, const std::string& wanted,
                       const std::string& folder);

// Becomes the program compiled for the level that choose_isa() finds, with the same arguments.
// Returns if there is none or it does not start.
void become_program_for_processor(int argc, char** argv);

}  // namespace accrue::app
