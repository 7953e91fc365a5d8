#include "apps/cli/nccl.h"

#include <nccl.h>

#include <algorithm>

#include "core/cuda.h"
#include "core/cuda_context.h"
#include "core/inside.h"

namespace accrue::app {
namespace {

void check_call(ncclResult_t result, std::string_view what, ncclComm_t comm = nullptr) {
  if (result == ncclSuccess) return;
  const char* const last = ncclGetLastError(comm);
  std::string details = last && *last ? fmt::format(" ({})", last) : "";
  std::ranges::replace(details, '\n', ' ');
  fail(
      "NCCL failed to {}: {}{}; NCCL_DEBUG=INFO has it say more, and --rank-exchange host does "
      "without it",
      what, ncclGetErrorString(result), details);
}

class Nccl : public ConnectedGpus {
 public:
  explicit Nccl(Ranks& ranks) : rank_(static_cast<size_t>(ranks.rank())) {
    cuda::context();  // makes our device current, which NCCL uses
    ncclUniqueId id{};
    if (rank_ == 0) check_call(ncclGetUniqueId(&id), "begin");
    ranks.broadcast(&id, sizeof id, 0);
    check_call(ncclCommInitRank(&comm_, ranks.count(), id, ranks.rank()), "connect the GPUs");
  }
  ~Nccl() override {
    // Waits here, because a destructor could not handle a failure of ncclCommDestroy().
    cudaStreamSynchronize(cuda::context().stream());
    ncclCommDestroy(comm_);
  }
  Nccl(const Nccl&) = delete;
  Nccl& operator=(const Nccl&) = delete;

  void exchange(std::span<const std::span<std::byte>> received,
                std::span<const std::span<std::byte>> sent) override {
    const auto from = sent[rank_], to = received[rank_];
    if (!from.empty() && from.data() != to.data())
      cuda::copy_on_device(to.data(), from.data(), from.size());
    const cudaStream_t stream = cuda::context().stream();
    // One group: separately, each rank's first send would wait for a receive queued behind another.
    check_call(ncclGroupStart(), "begin an exchange", comm_);
    for (size_t r = 0; r < sent.size(); ++r) {
      if (r == rank_) continue;
      const int other = static_cast<int>(r);
      if (!sent[r].empty())
        check_call(ncclSend(sent[r].data(), sent[r].size(), ncclUint8, other, comm_, stream),
                   "send to another GPU", comm_);
      if (!received[r].empty())
        check_call(
            ncclRecv(received[r].data(), received[r].size(), ncclUint8, other, comm_, stream),
            "receive from another GPU", comm_);
    }
    check_call(ncclGroupEnd(), "exchange between GPUs", comm_);
  }

  std::string failure() const override {
    ncclResult_t meanwhile = ncclSuccess;
    const ncclResult_t asked = ncclCommGetAsyncError(comm_, &meanwhile);
    const ncclResult_t result = asked == ncclSuccess ? meanwhile : asked;
    return result == ncclSuccess || result == ncclInProgress ? "" : ncclGetErrorString(result);
  }

 private:
  const size_t rank_;
  ncclComm_t comm_ = nullptr;
};

}  // namespace

bool built_with_nccl() { return true; }

std::string describe_nccl() {
  int version = 0;
  check_call(ncclGetVersion(&version), "tell its version");
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

std::unique_ptr<ConnectedGpus> connect_gpus(Ranks& ranks) { return std::make_unique<Nccl>(ranks); }

}  // namespace accrue::app
