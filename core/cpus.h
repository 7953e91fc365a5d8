#pragma once

namespace accrue {

// The processors that this process may use, at least 1: those of its affinity mask, or as many as
// the quota of its control group (cpu.max, or cpu.cfs_quota_us of version 1) amounts to, rounded
// up, if these are fewer.
int available_cpus();

}  // namespace accrue
