#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "core/inside.h"

namespace accrue::app {

// Machine-readable output of a command: to a file, or to standard output for the name "-".

// Throws Error if the output cannot be written. Call it before the work whose result the output
// will hold. An empty name means no output.
void check_output(const std::string& name);
// Writes all of the text at once. A file appears complete or not at all (data/atomic_file.h).
void write_output(const std::string& name, std::string_view text);
// For standard output or a named pipe, returns a function that writes lines; their reader may go
// before the end (apps/cli/messages.h). Returns null for a file.
std::function<void(std::string_view)> lines_to(const std::string& name);

}  // namespace accrue::app
