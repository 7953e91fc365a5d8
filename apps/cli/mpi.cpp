#include <mpi.h>
#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "apps/cli/ranks.h"

namespace accrue::app {
namespace {

// Data movement alone: sums of MPI's own may differ between ranks.
class World : public MpiRanks {
 public:
  World() {
    int level = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &count_);
  }
  // Not after abort().
  ~World() override { MPI_Finalize(); }

  int rank() const override { return rank_; }
  int count() const override { return count_; }

  void gather(void* all, const void* own, size_t bytes) override {
    const int n = static_cast<int>(bytes);
    MPI_Allgather(own, n, MPI_BYTE, all, n, MPI_BYTE, MPI_COMM_WORLD);
  }

  int sharing_processors() override {
    MPI_Comm here = MPI_COMM_NULL;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &here);
    int ranks = 1;
    MPI_Comm_size(here, &ranks);
    cpu_set_t own;
    CPU_ZERO(&own);
    ::sched_getaffinity(0, sizeof own, &own);
    std::vector<cpu_set_t> all(static_cast<size_t>(ranks));
    MPI_Allgather(&own, sizeof own, MPI_BYTE, all.data(), sizeof own, MPI_BYTE, here);
    MPI_Comm_free(&here);
    const auto sharing = std::ranges::count_if(all, [&](const cpu_set_t& other) {
      cpu_set_t both;
      CPU_AND(&both, &own, &other);
      return CPU_COUNT(&both) > 0;
    });
    return std::max(1, static_cast<int>(sharing));
  }

  void abort(int status) override {
    MPI_Abort(MPI_COMM_WORLD, status);
    std::_Exit(status);
  }

 protected:
  void exchange(void* received, const void* sent, size_t bytes) override {
    const int n = static_cast<int>(bytes);
    MPI_Alltoall(sent, n, MPI_BYTE, received, n, MPI_BYTE, MPI_COMM_WORLD);
  }

 private:
  int rank_ = 0, count_ = 1;
};

}  // namespace

std::unique_ptr<MpiRanks> start_mpi() {
  auto world = std::make_unique<World>();
  check(
      world->count() == launched().count,
      "the launcher has started {} ranks, but MPI knows {}: expected the launcher of the MPI that "
      "this program is built with, {}",
      launched().count, world->count(), describe_mpi());
  return world;
}

std::string describe_mpi() {
  std::string text(MPI_MAX_LIBRARY_VERSION_STRING, '\0');
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  text.resize(static_cast<size_t>(length));
  return text.substr(0, text.find_first_of(",\n"));
}

}  // namespace accrue::app
