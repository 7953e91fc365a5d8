#include "apps/cli/nccl.h"
#include "core/inside.h"

namespace accrue::app {

bool built_with_nccl() { return false; }

std::string describe_nccl() { return "none (built without CUDA, MPI or libnccl-dev)"; }

std::unique_ptr<ConnectedGpus> connect_gpus(Ranks&) { fail("this program is built without NCCL"); }

}  // namespace accrue::app
