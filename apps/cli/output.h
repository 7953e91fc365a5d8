#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace accrue::app {

// Where a command writes what programs read: a file, or "-", standard output.

// Keeps standard output for that: from now on what is printed for people goes to standard error.
void reserve_standard_output();

// Prints nothing more for people.
void silence_standard_output();

// The path under which the output can be opened.
std::string output_path(const std::string& name);
// Throws Error if it cannot be written there: before the work whose result it is to hold. Nothing
// is to be written where the name is empty.
void check_output(const std::string& name);
// Writes all of it at once; a file appears complete or not at all (data/atomic_file.h).
void write_output(const std::string& name, std::string_view text);

// The width of the terminal that standard output is, as it is now; 80 if it is none.
size_t terminal_columns();

// Throws Error if what was printed could not be written, as on a full disk.
void finish_standard_output();

}  // namespace accrue::app
