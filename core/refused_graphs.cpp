#include "core/refused_graphs.h"

#include <utility>

namespace accrue::cuda {
namespace {

std::set<std::string> untold;

}  // namespace

void add_refused_graph(const std::string& reason) {
  untold.insert(reason + ": the work is launched in parts instead of at once");
}

std::set<std::string> refused_graphs() { return std::exchange(untold, {}); }

}  // namespace accrue::cuda
