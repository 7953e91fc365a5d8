#pragma once

namespace accrue {

// The processors that the kernels were built for: "x86-64-v3", "x86-64-v4", "baseline" (every
// processor of the architecture) or "native" (processors like the build machine's).
const char* compiled_isa();

}  // namespace accrue
