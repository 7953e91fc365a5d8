#pragma once

namespace accrue {

// Tell how this program was built.
const char* compiler();        // "GNU 12.2.0, Release"
const char* libraries();       // "fmt 9.1.0, libjpeg 62, ..."
const char* source_scripts();  // the folder of scripts in the source tree

}  // namespace accrue
