#pragma once

#include <exception>
#include <memory>
#include <string>

#include "accumulate/ranks.h"
#include "job/request.h"

namespace accrue::app {

// This process's place among those of mpirun, or of another launcher: rank 0 of 1 without one.
struct Launched {
  int rank = 0, count = 1;
};
Launched launched();

// MPI's processes (accumulate/ranks.h). A process may make one of these in its life.
class MpiRanks : public Ranks {
 public:
  // How many ranks share a processor with this one, itself included.
  virtual int sharing_processors() = 0;
  // This rank's number among those on its machine.
  virtual int number_here() = 0;
  // From now on GPUs exchange by NCCL (apps/cli/nccl.h), which connects them at the first exchange.
  virtual void reach_gpus() = 0;
  // Ends every rank with this exit status.
  [[noreturn]] virtual void abort(int status) = 0;
};

// The name of this machine.
std::string host_name();

// Starts MPI. From then on all ranks end, and one says why, if a rank gives no sign of life for so
// long: if it is stopped, or its machine or the network fails. Throws Error if the program is built
// without MPI, or MPI knows another number of ranks than the launcher.
std::unique_ptr<MpiRanks> start_mpi(int64_t timeout_s);
// "Open MPI v4.1.4", or why there is none. Starts nothing.
std::string describe_mpi();

// Makes this process one of the launcher's ranks, which share what these options ask for: the first
// alone prints and writes the outputs among the settings that are not written by all, and the
// processors are shared out. Null if there is one process.
std::unique_ptr<MpiRanks> start_ranks(Request& options, const Settings& settings);
// Ends all ranks with the message of this one, which failed.
void abort_ranks(MpiRanks& ranks, const std::exception& error);

}  // namespace accrue::app
