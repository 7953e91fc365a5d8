#include <mpi.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "apps/cli/messages.h"
#include "apps/cli/nccl.h"
#include "apps/cli/ranks.h"
#include "core/inside.h"

namespace accrue::app {
namespace {

// While MPI starts and ends, no Watch runs. An alarm that is not destroyed in time ends this
// process, and with it the launcher ends all ranks.
class Alarm {
 public:
  // `message` is a whole line with its newline.
  Alarm(int64_t timeout_s, const char* message) {
    said = message;
    std::signal(SIGALRM, [](int) {
      say_in_handler(said);
      std::_Exit(1);
    });
    ::alarm(static_cast<unsigned>(timeout_s));
  }
  ~Alarm() { ::alarm(0); }
  Alarm(const Alarm&) = delete;
  Alarm& operator=(const Alarm&) = delete;

 private:
  static inline const char* said = "";
};

// MPI_Abort() may run exit handlers, and some wait for a device that itself waits for another rank.
// The alarm limits that wait.
[[noreturn]] void end_all_ranks(int status) {
  const Alarm alarm(5, "");
  MPI_Abort(MPI_COMM_WORLD, status);
  std::_Exit(status);
}

// Ends every rank if one gives no sign of life or if NCCL fails. A thread of each rank sends signs
// to the next rank many times within the timeout, so a rank with a long computation does not seem
// to hang. The destructors of all ranks' watches must run together.
class Watch {
 public:
  using Seconds = std::chrono::duration<double>;

  // `gpus` points to the GPUs of all ranks once they are connected, and to null before.
  Watch(int rank, int count, Seconds timeout, std::vector<std::string> hosts,
        const std::atomic<const ConnectedGpus*>& gpus)
      : rank_(rank), count_(count), timeout_(timeout), hosts_(std::move(hosts)), gpus_(gpus) {
    MPI_Comm_dup(MPI_COMM_WORLD, &signs_);
    thread_ = std::jthread([this](const std::stop_token& stop) { watch(stop); });
  }
  ~Watch() {
    thread_.request_stop();
    thread_.join();
    MPI_Comm_free(&signs_);
  }

 private:
  void watch(const std::stop_token& stop) {
    const int next = (rank_ + 1) % count_, watched = (rank_ + count_ - 1) % count_;
    const Seconds pause = std::min(Seconds(0.5), timeout_ / 20);
    char sign = 0, own_sign = 0;
    MPI_Request coming = MPI_REQUEST_NULL, going = MPI_REQUEST_NULL;
    MPI_Irecv(&sign, 1, MPI_CHAR, watched, 0, signs_, &coming);
    Seconds silence{0};
    auto before = std::chrono::steady_clock::now();
    while (!stop.stop_requested()) {
      if (done(going)) MPI_Isend(&own_sign, 1, MPI_CHAR, next, 0, signs_, &going);
      while (done(coming)) {
        silence = Seconds(0);
        MPI_Irecv(&sign, 1, MPI_CHAR, watched, 0, signs_, &coming);
      }
      std::this_thread::sleep_for(pause);
      const auto now = std::chrono::steady_clock::now();
      // A long pause means that all ranks were suspended, and is not counted as silence.
      silence += std::min(Seconds(now - before), 4 * pause);
      before = now;
      if (silence > timeout_)
        give_up(watched, fmt::format("has given no sign of life for {:g} s (--rank-timeout)",
                                     timeout_.count()));
      const ConnectedGpus* const gpus = gpus_.load();
      if (const std::string failure = gpus ? gpus->failure() : ""; !failure.empty())
        give_up(rank_, fmt::format("says that NCCL failed to exchange between GPUs: {}", failure));
    }
    MPI_Cancel(&coming);
    MPI_Wait(&coming, MPI_STATUS_IGNORE);
    if (!done(going)) MPI_Request_free(&going);
  }

  static bool done(MPI_Request& request) {
    int flag = 0;
    MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
    return flag != 0;
  }

  [[noreturn]] void give_up(int rank, const std::string& why) const {
    // The last line on the terminal may be incomplete.
    say_error("\naccrue: error: rank {} of {}, on {}, {}: all ranks end\n", rank, count_,
              hosts_[static_cast<size_t>(rank)], why);
    end_all_ranks(1);
  }

  const int rank_, count_;
  const Seconds timeout_;
  const std::vector<std::string> hosts_;
  const std::atomic<const ConnectedGpus*>& gpus_;
  MPI_Comm signs_ = MPI_COMM_NULL;
  std::jthread thread_;
};

// Only moves data, because MPI's own sums may differ between ranks.
class World : public MpiRanks {
 public:
  explicit World(int64_t timeout_s) : timeout_s_(timeout_s) {
    const Alarm alarm(timeout_s,
                      "accrue: error: MPI has not started within --rank-timeout: a rank is "
                      "missing\n");
    // Over TCP, Open MPI holds larger messages back until the receiver asks for them, and the
    // request waits behind the data on the connection. That halves the rate of two ranks that send
    // to each other.
    ::setenv("OMPI_MCA_btl_tcp_eager_limit", "1048576", 0);
    int level = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &count_);
    MPI_Comm_dup(MPI_COMM_WORLD, &exchanges_);
    std::vector<std::string> hosts = all_hosts();
    if (level == MPI_THREAD_MULTIPLE)
      watch_.emplace(rank_, count_, Watch::Seconds(double(timeout_s)), std::move(hosts),
                     connected_);
  }
  // Must not run after abort().
  ~World() override {
    MPI_Barrier(MPI_COMM_WORLD);  // no rank falls silent before all have finished
    const Alarm alarm(timeout_s_,
                      "accrue: error: MPI has not ended within --rank-timeout: a rank hangs\n");
    watch_.reset();
    gpus_.reset();
    MPI_Comm_free(&exchanges_);
    MPI_Finalize();
  }

  int rank() const override { return rank_; }
  int count() const override { return count_; }

  void gather(void* all, const void* own, size_t bytes) override {
    const int n = static_cast<int>(bytes);
    MPI_Allgather(own, n, MPI_BYTE, all, n, MPI_BYTE, MPI_COMM_WORLD);
  }

  void broadcast(void* data, size_t bytes, int from) override {
    for (size_t begin = 0; begin < bytes; begin += most_bytes)
      MPI_Bcast(static_cast<std::byte*>(data) + begin,
                static_cast<int>(std::min(most_bytes, bytes - begin)), MPI_BYTE, from,
                MPI_COMM_WORLD);
  }

  int number_here() override {
    MPI_Comm here = this_machine();
    int number = 0;
    MPI_Comm_rank(here, &number);
    MPI_Comm_free(&here);
    return number;
  }

  int sharing_processors() override {
    MPI_Comm here = this_machine();
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

  void reach_gpus() override { reaches_gpus_ = true; }
  bool reaches(Device device) const override { return reaches_gpus_ || device == Device::cpu; }

  void abort(int status) override { end_all_ranks(status); }

 protected:
  void begin_exchange(Device device, std::span<const Block> received,
                      std::span<const Block> sent) override {
    if (device == Device::cuda) {
      if (!gpus_) {
        gpus_ = connect_gpus(*this);
        connected_ = gpus_.get();
      }
      return gpus_->exchange(received, sent);
    }
    const auto own = static_cast<size_t>(rank_);
    if (sent[own].data() != received[own].data())
      std::ranges::copy(sent[own], received[own].data());
    for (int r = 0; r < count_; ++r)
      if (r != rank_)
        in_messages(received[static_cast<size_t>(r)], [&](Block part, MPI_Request& request) {
          MPI_Irecv(part.data(), static_cast<int>(part.size()), MPI_BYTE, r, 0, exchanges_,
                    &request);
        });
    for (int r = 0; r < count_; ++r)
      if (r != rank_)
        in_messages(sent[static_cast<size_t>(r)], [&](Block part, MPI_Request& request) {
          MPI_Isend(part.data(), static_cast<int>(part.size()), MPI_BYTE, r, 0, exchanges_,
                    &request);
        });
  }
  bool exchanged(Wait wait) override {
    int done = 1;
    const int n = static_cast<int>(requests_.size());
    if (wait == Wait::yes) MPI_Waitall(n, requests_.data(), MPI_STATUSES_IGNORE);
    else MPI_Testall(n, requests_.data(), &done, MPI_STATUSES_IGNORE);
    if (done != 0) requests_.clear();
    return done != 0;
  }

 private:
  static constexpr size_t most_bytes = size_t{1} << 30;  // per message, because MPI counts in int

  template <class Begin>
  void in_messages(Block block, Begin&& begin) {
    for (; !block.empty(); block = block.subspan(std::min(most_bytes, block.size())))
      begin(block.first(std::min(most_bytes, block.size())), requests_.emplace_back());
  }

  // The ranks on this machine. The caller must free the communicator.
  MPI_Comm this_machine() const {
    MPI_Comm here = MPI_COMM_NULL;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &here);
    return here;
  }

  std::vector<std::string> all_hosts() {
    using Name = std::array<char, 64>;
    Name own{};
    host_name().copy(own.data(), own.size() - 1);
    std::vector<std::string> hosts;
    for (const Name& name : all_of(own)) hosts.emplace_back(name.data());
    return hosts;
  }

  const int64_t timeout_s_;
  int rank_ = 0, count_ = 1;
  // A communicator for exchanges alone, because other messages may arrive during one.
  MPI_Comm exchanges_ = MPI_COMM_NULL;
  std::vector<MPI_Request> requests_;  // of the exchanges under way
  bool reaches_gpus_ = false;
  std::unique_ptr<ConnectedGpus> gpus_;
  std::atomic<const ConnectedGpus*> connected_ = nullptr;
  std::optional<Watch> watch_;
};

}  // namespace

std::unique_ptr<MpiRanks> start_mpi(int64_t timeout_s) {
  auto world = std::make_unique<World>(timeout_s);
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
  text.resize(std::min(text.size(), text.find_first_of(",\n")));
  std::ranges::replace(text, '\t', ' ');  // MPICH has one
  return text;
}

}  // namespace accrue::app
