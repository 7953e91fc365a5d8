#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "accumulate/ranks.h"

namespace accrue::app {

// The GPUs of all ranks, one each, connected by NCCL, which only moves bytes: its own sums may
// differ from run to run and from GPU to GPU.
class ConnectedGpus {
 public:
  virtual ~ConnectedGpus() = default;
  // received[s] = sent_s[r] on rank r, enqueued on the stream. Blocks are of any sizes, also none,
  // and overlap no others, but a rank's own may be received where it is. Throws Error if NCCL
  // refuses.
  virtual void exchange(std::span<const std::span<std::byte>> received,
                        std::span<const std::span<std::byte>> sent) = 0;
  // What NCCL says of an exchange that will never end, or nothing; for any thread.
  virtual std::string failure() const = 0;
};

bool built_with_nccl();
// "2.27.3", or why there is none.
std::string describe_nccl();
// All ranks call this together. Destroy what it returns on all of them together, too, when nothing
// waits for another rank any more. Throws Error if NCCL cannot connect them.
std::unique_ptr<ConnectedGpus> connect_gpus(Ranks& ranks);

}  // namespace accrue::app
