#pragma once

#include "job/notices.h"
#include "job/request.h"

namespace accrue {

// The device that a request means, without a word about it; cuda where it is asked for, whether it
// can be used or not.
Device wanted_device(const Request& request);
// Throws Error for a setting of a table that was given and has no effect on that device, or in so
// few processes.
void check_machine(const Request& request, const Settings& settings, int64_t processes);
void apply_threads(const Request& request);
// --device, --threads and --memory-limit take effect here. Returns the device to run on and, if it
// was chosen automatically, says so. Throws Error if a device is asked for that cannot be used.
Device apply_machine_settings(const Request& request, const Notices& notices);

}  // namespace accrue
