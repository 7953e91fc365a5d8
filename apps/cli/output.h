#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "core/inside.h"

namespace accrue::app {

// Where a command writes what programs read: a file, or "-", standard output.

// Throws Error if the output cannot be written there: before the work whose result it is to hold.
// Nothing is to be written where the name is empty.
void check_output(const std::string& name);
// Writes all of it at once; a file appears complete or not at all (data/atomic_file.h).
void write_output(const std::string& name, std::string_view text);
// Writes lines where they cannot be a file: to standard output or a named pipe, whose reader may go
// before the end (apps/cli/messages.h). Returns nothing for a file.
std::function<void(std::string_view)> lines_to(const std::string& name);

}  // namespace accrue::app
