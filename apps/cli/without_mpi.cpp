#include "apps/cli/ranks.h"
#include "core/inside.h"

namespace accrue::app {

std::unique_ptr<MpiRanks> start_mpi(int64_t) {
  fail(
      "this program is built without MPI, but started as rank {} of {}: expected one process, or "
      "a program built where libopenmpi-dev or libmpich-dev is installed",
      launched().rank, launched().count);
}

std::string describe_mpi() { return "none (built without libopenmpi-dev or libmpich-dev)"; }

}  // namespace accrue::app
