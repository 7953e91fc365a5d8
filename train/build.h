#pragma once

namespace accrue {

// Tell how this library was built.
const char* version();  // "0.1.0"
// The processors that it was built for: "x86-64-v3" or "x86-64-v4", "baseline" for every processor
// of the architecture, or "native" for those like that of the machine it was built on.
const char* compiled_isa();
const char* matrix_products();  // the code that multiplies on the cpu: "accrue, bf16 oneDNN"

}  // namespace accrue
