#include "core/refused_graphs.h"

#include <utility>

namespace accrue::cuda {
namespace {

std::set<std::string> untold;

}  // namespace

void add_refused_graph(const std::string& reason) {
  untold.insert(reason + ": what should have been one launch is launched in parts");
}

std::set<std::string> refused_graphs() { return std::exchange(untold, {}); }

}  // namespace accrue::cuda
