#pragma once

#include <vector>

#include "core/inside.h"
#include "job/run_memory.h"

namespace accrue::app {

// Prints the peaks of a run and the process's resident memory.
void print_memory_table(const std::vector<PeakOfRun>& peaks, const ResidentBytes& process,
                        Batches batches, Device device);

}  // namespace accrue::app
