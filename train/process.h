#pragma once

#include <cstddef>
#include <string>

namespace accrue {

// This process's resident memory, now and at its peak since the program was started. (Not
// getrusage's maximum, which a parent's memory before exec may set.)
// Throws Error where /proc/self/status cannot be read.
size_t resident_bytes();
size_t peak_resident_bytes();

// This process's command line, as it could be typed again.
std::string command_line();
// A word as a shell reads it, in quotes if it needs them.
std::string shell_word(const std::string& word);

// "2026-11-21 20:15 UTC"
std::string now();

}  // namespace accrue
