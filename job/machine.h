#pragma once

#include "job/notices.h"
#include "job/request.h"

namespace accrue {

// The device that a request means, without a message: cuda if the request asks for it, even if it
// cannot be used.
Device wanted_device(const Request& request);
// Throws Error for a given setting that has no effect on the request's device or with this number
// of processes.
void check_machine(const Request& request, const Settings& settings, int64_t processes);
void apply_threads(const Request& request);
// Applies --device, --threads and --memory-limit. Returns the device to run on, and reports it if
// it was chosen automatically. Throws Error if the requested device cannot be used.
Device apply_machine_settings(const Request& request, const Notices& notices);

}  // namespace accrue
