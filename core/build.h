#pragma once

namespace accrue {

// How this library was built.
const char* version();          // "0.1.0"
const char* matrix_products();  // the code for them on the cpu: "accrue, bf16 oneDNN"

}  // namespace accrue
