#pragma once

namespace accrue {

// Tell how this library was built.
const char* version();          // "0.1.0"
const char* matrix_products();  // the code that multiplies on the cpu: "accrue, bf16 oneDNN"

}  // namespace accrue
