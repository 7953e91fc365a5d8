#include "apps/cli/ranks.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <cstring>

#include "apps/cli/messages.h"
#include "apps/cli/nccl.h"
#include "core/cpus.h"
#include "core/cuda.h"
#include "core/inside.h"
#include "job/machine.h"

namespace accrue::app {
namespace {

int number_in(const char* variable, int otherwise) {
  const char* const text = std::getenv(variable);
  if (!text) return otherwise;
  int number = otherwise;
  std::from_chars(text, text + std::strlen(text), number);
  return number;
}

void check_for_ranks(const Request& options) {
  check(!options.measure_baseline,
        "--measure-baseline runs this program again as one process: expected not to be one of "
        "several ranks");
  check(!options.shard_optimizer || !options.log_histograms,
        "--log-histograms are of whole gradients, of which each rank has a part with "
        "--shard-optimizer: expected one of the two");
}

// Removes the messages and the outputs of every rank except the first.
void leave_writing_to_the_first(const Settings& settings) {
  silence_messages();
  for (const Setting& setting : settings)
    if (setting.is_output() && setting.about.written_by == WrittenBy::first_rank) setting.set("");
}

// True if each rank has a GPU and no two ranks have the same one, which NCCL refuses.
bool have_own_gpus(Ranks& ranks, bool has_gpu) {
  using Name = std::array<char, 320>;
  Name own{};
  if (has_gpu)
    fmt::format("{} {}", host_name(), cuda::device_address()).copy(own.data(), own.size() - 1);
  std::vector<Name> all = ranks.all_of(own);
  std::ranges::sort(all);
  return all.front().front() != '\0' && std::ranges::adjacent_find(all) == all.end();
}

// Stores the ranks in the options, with this rank's share of the processors and its GPU.
void share_machine(MpiRanks& ranks, Request& options, const Settings& settings) {
  check_for_ranks(options);
  options.ranks = &ranks;
  const int sharing = ranks.sharing_processors();
  if (options.threads == 0) options.threads = std::max(1, available_cpus() / sharing);
  // Each process gets its own GPU if there are enough.
  const int gpus = wanted_device(options) == Device::cuda ? cuda::device_count() : 0;
  if (gpus > 0) cuda::use_device(ranks.number_here() % gpus);
  const bool by_nccl = built_with_nccl() && options.rank_exchange == RankExchange::automatic &&
                       have_own_gpus(ranks, gpus > 0);
  if (by_nccl) ranks.reach_gpus();
  if (ranks.rank() > 0) leave_writing_to_the_first(settings);
  else
    say("ranks: {}, {} each{}\n", ranks.count(), counted(options.threads, "thread"),
        gpus > 0 ? fmt::format(", {} on this machine, exchange {}", counted(gpus, "GPU"),
                               by_nccl ? "by NCCL " + describe_nccl() : "through the host")
                 : "");
}

}  // namespace

Launched launched() {
  struct Variables {
    const char *rank, *count;
  };
  // The variables of Open MPI; of MPICH, Intel MPI and Slurm's PMI; and of Slurm's PMIx.
  // SLURM_NTASKS alone proves nothing: a batch script has it, too, and is a single process.
  for (const auto [rank, count] : {Variables{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                   {"PMI_RANK", "PMI_SIZE"},
                                   {"PMIX_RANK", "SLURM_NTASKS"}})
    if (const int R = number_in(count, 1); R > 1 && number_in(rank, -1) >= 0)
      return {number_in(rank, 0), R};
  return {};
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "an unknown host";
}

std::unique_ptr<MpiRanks> start_ranks(Request& options, const Settings& settings) {
  if (launched().count == 1) {
    // A Slurm step of several tasks that do not know each other.
    if (const int tasks = number_in("SLURM_STEP_NUM_TASKS", 1); tasks > 1)
      say_error(
          "warning: Slurm runs this {} times, each as one process: for ranks of one training "
          "use srun --mpi=pmix, or pmi2\n",
          tasks);
    return nullptr;
  }
  std::unique_ptr<MpiRanks> ranks = start_mpi(options.rank_timeout_s);
  try {
    share_machine(*ranks, options, settings);
  } catch (const std::exception& error) {
    abort_ranks(*ranks, error);
  }
  return ranks;
}

void abort_ranks(MpiRanks& ranks, const std::exception& error) {
  say_error("accrue: error: rank {} of {}, on {}: {}\n", ranks.rank(), ranks.count(), host_name(),
            error.what());
  ranks.abort(1);
}

}  // namespace accrue::app
