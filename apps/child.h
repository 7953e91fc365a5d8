#pragma once

#include <string>
#include <vector>

namespace accrue::app {

struct ChildResult {
  int exit_status;        // -1 if a signal ended it
  size_t peak_rss_bytes;  // of the child alone
  std::string output;     // stdout and stderr
};

// Runs this program again with other arguments and waits: a fresh process, whose peak resident
// memory says what the ledger cannot (libraries, stacks, allocator). Throws Error if it cannot be
// started.
ChildResult run_self(const std::vector<std::string>& arguments);

}  // namespace accrue::app
