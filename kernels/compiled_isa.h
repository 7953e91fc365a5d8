#pragma once

namespace accrue {

// The processors that the kernels were built for: "x86-64-v3" or "x86-64-v4", "baseline" for every
// processor of the architecture, or "native" for those like that of the machine they were built on.
const char* compiled_isa();

}  // namespace accrue
