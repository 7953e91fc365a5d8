#pragma once

namespace accrue {

// The number of processors that this process may use, at least 1: the size of its affinity mask,
// limited by the quota of its control group (cpu.max, or cpu.cfs_quota_us of version 1), which is
// rounded up to whole processors.
int available_cpus();

}  // namespace accrue
