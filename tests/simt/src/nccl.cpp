#include "nccl.h"

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "library.h"

namespace fs = std::filesystem;

// A message is a file in a folder that the ranks of a communicator share. Its receiver removes it:
// then the sender knows that it has arrived.
struct ncclComm {
  int rank, count;
  fs::path folder;
  std::vector<uint64_t> sent, received;  // to and from each rank
  std::jthread progress{};
};

namespace simt {
namespace {

using Clock = std::chrono::steady_clock;

struct Transfer {
  enum class Way { send, receive } way;
  void* data;
  size_t count;
  ncclDataType_t type;
  int peer;
  ncclComm_t comm;
  cudaStream_t stream;

  size_t bytes() const {
    constexpr std::array<size_t, 10> sizes{1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
    return count * sizes[type];
  }
};

struct Header {
  size_t count;
  ncclDataType_t type;
};

thread_local std::string last_error;
thread_local int group_depth = 0;
thread_local std::vector<Transfer> group;

ncclResult_t refuse(ncclResult_t result, std::string why) {
  last_error = std::move(why);
  return result;
}

// The file is complete as soon as it exists under its name.
void write_file(const fs::path& path, const std::string& content) {
  const fs::path unfinished = path.string() + ".unfinished";
  std::ofstream(unfinished, std::ios::binary) << content;
  fs::rename(unfinished, path);
}

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The messages that one group of one rank sends and receives. It is over when each of them has been
// taken.
class Exchange {
 public:
  explicit Exchange(std::vector<Transfer> transfers) : transfers_(std::move(transfers)) {
    ncclComm& comm = *transfers_.front().comm;
    for (const Transfer& t : transfers_) {
      const bool sends = t.way == Transfer::Way::send;
      const int from = sends ? comm.rank : t.peer, to = sends ? t.peer : comm.rank;
      const uint64_t number = (sends ? comm.sent : comm.received)[t.peer]++;
      states_.push_back({comm.folder / fmt::format("{}-to-{}-{}", from, to, number), {}, false});
    }
    rank_ = comm.rank;
  }

  // Fills the memory to receive into with garbage: if it overlaps memory that is sent, the results
  // are wrong.
  void begin() {
    for (const Transfer& t : transfers_) {
      if (t.way != Transfer::Way::receive) continue;
      require_device(t.data, t.bytes(), "what ncclRecv writes");
      std::memset(t.data, 0xff, t.bytes());
    }
    for (size_t i = 0; i < transfers_.size(); ++i) {
      const Transfer& t = transfers_[i];
      if (t.way != Transfer::Way::send) continue;
      require_device(t.data, t.bytes(), "what ncclSend reads");
      const Header header{t.count, t.type};
      std::string message(reinterpret_cast<const char*>(&header), sizeof header);
      message.append(static_cast<const char*>(t.data), t.bytes());
      write_file(states_[i].file, message);
    }
    begun_ = Clock::now();
  }

  bool met() {
    bool all = true;
    for (size_t i = 0; i < transfers_.size(); ++i) all &= take(transfers_[i], states_[i]);
    const std::chrono::duration<double> waited = Clock::now() - begun_;
    if (!all && waited.count() > device().nccl_patience_s) {
      throw Failure(cudaErrorLaunchFailure,
                    fmt::format("nccl: rank {} waits for ever:{}", rank_, describe_missing()));
    }
    return all;
  }

  void end() {
    for (size_t i = 0; i < transfers_.size(); ++i) {
      const Transfer& t = transfers_[i];
      if (t.way != Transfer::Way::receive) continue;
      require_device(t.data, t.bytes(), "what ncclRecv writes");
      std::memcpy(t.data, states_[i].message.data() + sizeof(Header), t.bytes());
    }
  }

 private:
  struct State {
    fs::path file;
    std::string message;
    bool over;
  };

  bool take(const Transfer& t, State& state) {
    if (state.over) return true;
    const bool there = fs::exists(state.file);
    if (t.way == Transfer::Way::send) return state.over = !there;
    if (!there) return false;
    state.message = read_file(state.file);
    fs::remove(state.file);
    Header header{};
    std::memcpy(&header, state.message.data(), sizeof header);
    if (header.count != t.count || header.type != t.type) {
      throw Failure(
          cudaErrorLaunchFailure,
          fmt::format("nccl: rank {} expects {} elements of type {} from rank {}, which "
                      "has sent {} of type {}",
                      rank_, t.count, int(t.type), t.peer, header.count, int(header.type)));
    }
    return state.over = true;
  }

  std::string describe_missing() const {
    std::string text;
    for (size_t i = 0; i < transfers_.size(); ++i) {
      const Transfer& t = transfers_[i];
      if (states_[i].over) continue;
      text += t.way == Transfer::Way::send
                  ? fmt::format(" rank {} does not receive {} bytes;", t.peer, t.bytes())
                  : fmt::format(" rank {} does not send {} bytes;", t.peer, t.bytes());
    }
    return text;
  }

  std::vector<Transfer> transfers_;
  std::vector<State> states_;
  int rank_ = 0;
  Clock::time_point begun_;
};

ncclResult_t enqueue(std::vector<Transfer> transfers) {
  if (transfers.empty()) return ncclSuccess;
  const Transfer first = transfers.front();
  for (const Transfer& t : transfers) {
    if (t.comm != first.comm || t.stream != first.stream)
      return refuse(ncclInvalidUsage, "the runner takes one communicator and stream a group");
  }
  const auto exchange = std::make_shared<Exchange>(std::move(transfers));
  const cudaError_t error = call([&] {
    ++device().launches.library_calls;
    return submit_meeting(
        first.stream, [=] { exchange->begin(); }, [=] { return exchange->met(); },
        [=] { exchange->end(); });
  });
  return error == cudaSuccess ? ncclSuccess
                              : refuse(ncclUnhandledCudaError, cudaGetErrorString(error));
}

ncclResult_t transfer(const Transfer& t) {
  require_loaded("a transfer of NCCL");
  if (t.comm == nullptr || t.type < ncclInt8 || t.type > ncclBfloat16)
    return refuse(ncclInvalidArgument, "no communicator, or no such type");
  if (t.peer < 0 || t.peer >= t.comm->count)
    return refuse(ncclInvalidArgument, fmt::format("no rank {} of {}", t.peer, t.comm->count));
  {
    const std::scoped_lock lock(device().mutex);
    if (t.count > 0 && !device_block(t.data, t.bytes()))
      return refuse(ncclInvalidArgument, "a transfer must lie in one block of device memory");
  }
  if (group_depth == 0) return enqueue({t});
  group.push_back(t);
  return ncclSuccess;
}

// True if all ranks have written their files of this kind within the time allowed.
bool all_there(const ncclComm& comm, const char* kind) {
  for (int r = 0; r < comm.count; ++r)
    if (!fs::exists(comm.folder / fmt::format("{}-{}", kind, r))) return false;
  return true;
}

ncclResult_t meet(const ncclComm& comm) {
  cudaDeviceProp properties;
  if (cudaGetDeviceProperties(&properties, 0) != cudaSuccess) return ncclUnhandledCudaError;
  fs::create_directories(comm.folder);
  const auto file = [&](int r) { return comm.folder / fmt::format("rank-{}", r); };
  write_file(file(comm.rank), std::to_string(properties.pciDomainID));
  const auto begun = Clock::now();
  while (!all_there(comm, "rank")) {
    const std::chrono::duration<double> waited = Clock::now() - begun;
    if (waited.count() > device().nccl_patience_s)
      return refuse(ncclSystemError, "not all ranks have come");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  for (int r = 0; r < comm.count; ++r)
    for (int other = r + 1; other < comm.count; ++other)
      if (read_file(file(r)) == read_file(file(other)))
        return refuse(ncclInvalidUsage,
                      fmt::format("Duplicate GPU detected : rank {} and rank {}", r, other));
  return ncclSuccess;
}

// The last rank to go removes the folder.
void leave(const ncclComm& comm) {
  write_file(comm.folder / fmt::format("gone-{}", comm.rank), {});
  std::error_code removed_by_another;
  if (all_there(comm, "gone")) fs::remove_all(comm.folder, removed_by_another);
}

}  // namespace
}  // namespace simt

using namespace simt;

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  std::random_device random;
  *id = {};
  fmt::format("simt-nccl-{:08x}{:08x}", random(), random())
      .copy(id->internal, sizeof id->internal - 1);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  if (comm == nullptr || rank < 0 || rank >= ranks)
    return refuse(ncclInvalidArgument, fmt::format("no rank {} of {}", rank, ranks));
  const size_t n = size_t(ranks);
  auto made = std::make_unique<ncclComm>(rank, ranks, fs::temp_directory_path() / id.internal,
                                         std::vector<uint64_t>(n), std::vector<uint64_t>(n));
  if (const ncclResult_t result = meet(*made)) {
    leave(*made);
    return result;
  }
  unload_at_exit();
  made->progress = std::jthread([](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      progress();
    }
  });
  *comm = made.release();
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  require_loaded("ncclCommDestroy");
  if (comm == nullptr) return ncclInvalidArgument;
  const std::unique_ptr<ncclComm> owner(comm);
  leave(*comm);
  return ncclSuccess;
}

// Does not wait for the lock.
ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t* error) {
  const std::unique_lock lock(device().mutex, std::try_to_lock);
  const bool failed = lock.owns_lock() && device().sticky != cudaSuccess;
  *error = failed ? ncclUnhandledCudaError : ncclSuccess;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess: return "no error";
    case ncclUnhandledCudaError: return "unhandled cuda error";
    case ncclSystemError: return "unhandled system error";
    case ncclInternalError: return "internal error";
    case ncclInvalidArgument: return "invalid argument";
    case ncclInvalidUsage: return "invalid usage";
    case ncclRemoteError: return "remote process exited or there was a network error";
    case ncclInProgress: return "NCCL operation in progress";
    default: return "unknown result code";
  }
}

const char* ncclGetLastError(ncclComm_t) { return last_error.c_str(); }

ncclResult_t ncclSend(const void* from, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return transfer({Transfer::Way::send, const_cast<void*>(from), count, type, peer, comm, stream});
}

ncclResult_t ncclRecv(void* to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return transfer({Transfer::Way::receive, to, count, type, peer, comm, stream});
}

ncclResult_t ncclGroupStart() {
  ++group_depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (group_depth == 0) return refuse(ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
  return --group_depth == 0 ? enqueue(std::exchange(group, {})) : ncclSuccess;
}
