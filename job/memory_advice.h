#pragma once

#include <optional>
#include <string>

#include "data/dataset.h"
#include "job/notices.h"
#include "job/request.h"

namespace accrue {

// The memory limit of a whole run, including the memory in use now: --memory-limit, or on cuda nine
// tenths of what the device has left. Empty on the cpu without a limit.
std::optional<size_t> memory_for_a_run(const Request& request, Device device);

// Replaces --micro-batch auto in the request by the largest micro-batch that fits in
// memory_for_a_run(), and reports it in a line. The last tenth of a GPU's memory is left for the
// libraries' handles and the allocator's segments. Throws Error if no micro-batch fits, or on the
// cpu without a limit.
Request with_micro_batch_chosen(const Request& request, const Datasets& data, Device device,
                                const Notices& notices);

// After a training ran out of memory: makes a plan and returns advice such as "try: --micro-batch
// 12 --effective-batch 64". Empty if memory_for_a_run() is not known.
std::string advice_for_training(const Request& request, const Notices& notices);
// After scoring ran out of memory: the smallest memory limit under which it can score one sample at
// a time. Scoring reduces its batches to that by itself.
std::string advice_for_scoring(const Request& request, const Notices& notices);
// Evaluation reduces its batches by itself, so only more memory helps.
std::string advice_for_evaluation();

}  // namespace accrue
