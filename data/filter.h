#pragma once

#include <functional>
#include <string>
#include <vector>

namespace accrue {

struct Filtered {
  std::string output;
  std::string errors;  // the first 4 KiB of what it said on its standard error
  int status;          // 126 or 127 if it could not be run or found, as in a shell; 128 and the
                       // number of the signal that ended it
};

// Runs a program, which is looked for on the PATH, as a filter: hands it what next() returns, call
// by call until that is empty, and reads what it prints meanwhile. Neither a shell nor a file takes
// part. The rest of the input is dropped if the program closes it. Throws Error if no process can
// be made and, after ending the program, if it prints more than most_bytes; what next() throws goes
// the same way.
Filtered run_filter(const std::vector<std::string>& command,
                    const std::function<std::string()>& next, size_t most_bytes);

}  // namespace accrue
