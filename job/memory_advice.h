#pragma once

#include <optional>
#include <string>

#include "data/dataset.h"
#include "job/notices.h"
#include "job/request.h"

namespace accrue {

// The memory for a whole run, including what is alive: --memory-limit, or on cuda nine tenths of
// what the device has left. Nothing on the cpu without a limit.
std::optional<size_t> memory_for_a_run(const Request& request, Device device);

// The request with --micro-batch auto replaced by the largest micro-batch that fits (said in one
// line) in memory_for_a_run(). What that leaves of a GPU is for the libraries' handles and the
// allocator's segments. Throws Error if none fits, or on the cpu without a limit.
Request with_micro_batch_chosen(const Request& request, const Datasets& data, Device device,
                                const Notices& notices);

// Advice after a training ran out of memory, by a plan: "try: --micro-batch 12
// --effective-batch 64". Empty where the memory for a run is not known.
std::string advice_for_training(const Request& request, const Notices& notices);
// The same for eval: the limit under which it scores one sample at a time, which it does by itself.
std::string advice_for_scoring(const Request& request, const Notices& notices);
// Evaluation takes fewer samples at a time by itself: only memory helps.
std::string advice_for_evaluation();

}  // namespace accrue
