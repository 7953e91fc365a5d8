#pragma once

#include <set>
#include <string>

namespace accrue::cuda {

// Work that CUDA refuses to take as a graph is launched kernel by kernel. Results are the same, but
// the host has more to do, so the program should say so.
void add_refused_graph(const std::string& reason);
// A line about each, since this was last asked.
std::set<std::string> refused_graphs();

}  // namespace accrue::cuda
