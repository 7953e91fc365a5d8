#pragma once

#include <functional>
#include <string>
#include <vector>

namespace accrue {

struct Filtered {
  std::string output;
  std::string errors;  // the first 4 KiB of its standard error
  int status;          // 126 or 127 if it could not be run or found, as in a shell; 128 and the
                       // number of the signal that ended it
};

// Runs a program, found on the PATH, as a filter, without a shell or a file. It writes the results
// of next() to the program's input until a result is empty, and meanwhile reads the program's
// output. If the program closes its input, the rest of the input is dropped. Throws Error if no
// process can be made. If the program prints more than most_bytes, or next() throws, it ends the
// program and throws.
Filtered run_filter(const std::vector<std::string>& command,
                    const std::function<std::string()>& next, size_t most_bytes);

}  // namespace accrue
