#pragma once

namespace accrue::app {

// Does what the arguments say, and returns the exit status. Throws what its commands throw.
int run_program(int argc, char** argv);

}  // namespace accrue::app
