#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "accumulate/ranks.h"

namespace accrue::app {

// The GPUs of all ranks, one each, connected by NCCL. NCCL only moves bytes: its own sums may
// differ from run to run and from GPU to GPU.
class ConnectedGpus {
 public:
  virtual ~ConnectedGpus() = default;
  // received[s] = sent_s[r] on rank r, enqueued on the stream. Blocks may have any size, also 0,
  // and must not overlap; but a rank may receive its own block in place. Throws Error if NCCL
  // refuses.
  virtual void exchange(std::span<const std::span<std::byte>> received,
                        std::span<const std::span<std::byte>> sent) = 0;
  // NCCL's reason if an exchange will never end, else empty. Any thread may call it.
  virtual std::string failure() const = 0;
};

bool built_with_nccl();
// "2.27.3", or why there is none.
std::string describe_nccl();
// All ranks must call this together. They must also destroy the results together, when no rank
// waits for another any more. Throws Error if NCCL cannot connect the GPUs.
std::unique_ptr<ConnectedGpus> connect_gpus(Ranks& ranks);

}  // namespace accrue::app
