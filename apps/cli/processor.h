#pragma once

#include <string>
#include <vector>

namespace accrue::app {

// The levels of the x86-64 psABI for which the package holds a separately compiled program,
// ../libexec/accrue/ISA/accrue, best first. The program in bin/ runs on every x86-64 processor.
// (Section 3.1.1 of the psABI: v3 has AVX2 and FMA, v4 has AVX-512. Our loops do not use the
// instructions that v2 adds.)
std::vector<std::string> isa_levels();

// True if this processor has the instructions of the level.
bool supports_isa(const std::string& level);

// The level whose program to run, when a program compiled for the level `own` was started. That is
// `wanted` if not empty; else, if `own` is baseline, the best level that the processor supports and
// for which `folder` has ISA/accrue. Throws Error if the wanted program is missing or cannot run
// here.
std::string choose_isa(const std::string& own, const std::string& wanted,
                       const std::string& folder);

// Replaces this process by the program of the level that choose_isa() returns, with the same
// arguments. Returns if there is none or it does not start.
void become_program_for_processor(int argc, char** argv);

}  // namespace accrue::app
