#pragma once

#include <exception>
#include <memory>
#include <string>

#include "accumulate/ranks.h"
#include "job/request.h"

namespace accrue::app {

// This process's rank among the processes that mpirun or another launcher started: rank 0 of 1
// without a launcher.
struct Launched {
  int rank = 0, count = 1;
};
Launched launched();

// Ranks connected by MPI (accumulate/ranks.h). A process may make only one such object in its life.
class MpiRanks : public Ranks {
 public:
  // The number of ranks that share a processor with this one, including itself.
  virtual int sharing_processors() = 0;
  // This rank's number among the ranks on its machine.
  virtual int number_here() = 0;
  // From now on GPUs exchange by NCCL (apps/cli/nccl.h), which is connected at the first exchange.
  virtual void reach_gpus() = 0;
  // Ends every rank with this exit status.
  [[noreturn]] virtual void abort(int status) = 0;
};

// The name of this machine.
std::string host_name();

// Starts MPI. From then on, if a rank gives no sign of life for `timeout_s` seconds (it is stopped,
// or its machine or the network fails), all ranks end and one says why. Throws Error if the program
// was built without MPI, or if MPI and the launcher disagree about the number of ranks.
std::unique_ptr<MpiRanks> start_mpi(int64_t timeout_s);
// "Open MPI v4.1.4", or why there is none. Does not start MPI.
std::string describe_mpi();

// Makes this process one of the launcher's ranks, which share the work of `options`. Only the first
// rank prints, and only it writes the outputs that are not marked as written by all ranks. The
// ranks divide the processors among them. Returns null if there is one process.
std::unique_ptr<MpiRanks> start_ranks(Request& options, const Settings& settings);
// Ends all ranks after this one failed, with this rank's error message.
void abort_ranks(MpiRanks& ranks, const std::exception& error);

}  // namespace accrue::app
