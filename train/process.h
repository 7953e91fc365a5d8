#pragma once

#include <cstddef>
#include <string>

namespace accrue {

// This process's resident memory: now, and its peak since the program started. (getrusage's maximum
// may include a parent's memory before exec.) Throws Error if /proc/self/status cannot be read.
size_t resident_bytes();
size_t peak_resident_bytes();

// This process's command line, in a form that can be typed again.
std::string command_line();
// The word in the form that a shell reads, quoted if necessary.
std::string shell_word(const std::string& word);

// "2026-11-21 20:15 UTC"
std::string now();

}  // namespace accrue
