#pragma once

#include <set>
#include <string>

namespace accrue::cuda {

// If CUDA refuses to make a graph of some work, the work is launched in parts: kernel by kernel, or
// graph by graph. Results are the same, but the host has more to do, so the program should report
// it.
void add_refused_graph(const std::string& reason);
// Returns a line for each distinct reason since the last call.
std::set<std::string> refused_graphs();

}  // namespace accrue::cuda
