// NCCL between processes that a test forks. Each has a device of its own.

#include <nccl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>

#include "runner.h"

namespace {

struct Rank {
  int rank, count;
  ncclComm_t comm;
  cudaStream_t stream;
};

// Runs body(rank) in `count` processes. Returns true if it returned true in each of them, and their
// ranks could start and end.
bool all_ranks(int count, const std::function<bool(const Rank&)>& body) {
  ncclUniqueId id;
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  std::vector<pid_t> children;
  for (int r = 0; r < count; ++r) {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      simt::reset();
      Rank rank{r, count, nullptr, nullptr};
      const bool good =
          cudaStreamCreateWithFlags(&rank.stream, cudaStreamNonBlocking) == cudaSuccess &&
          ncclCommInitRank(&rank.comm, count, id, r) == ncclSuccess && body(rank) &&
          ncclCommDestroy(rank.comm) == ncclSuccess;
      _exit(good ? 0 : 1);
    }
    children.push_back(child);
  }
  bool good = true;
  for (const pid_t child : children) {
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    good = good && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  return good;
}

float* device_floats(const std::vector<float>& values) {
  float* data = nullptr;
  const size_t bytes = values.size() * sizeof(float);
  if (cudaMalloc(&data, bytes) != cudaSuccess) std::abort();
  if (cudaMemcpy(data, values.data(), bytes, cudaMemcpyHostToDevice) != cudaSuccess) std::abort();
  return data;
}

std::vector<float> on_host(const float* data, size_t n) {
  std::vector<float> values(n);
  if (cudaMemcpy(values.data(), data, n * sizeof(float), cudaMemcpyDeviceToHost) != cudaSuccess)
    std::abort();
  return values;
}

// One value to every rank, and one from each.
bool exchange(const Rank& r, const float* from, float* to) {
  bool good = ncclGroupStart() == ncclSuccess;
  for (int other = 0; other < r.count; ++other) {
    good = good && ncclSend(from + other, 1, ncclFloat32, other, r.comm, r.stream) == ncclSuccess;
    good = good && ncclRecv(to + other, 1, ncclFloat32, other, r.comm, r.stream) == ncclSuccess;
  }
  return good && ncclGroupEnd() == ncclSuccess;
}

bool failed_with(const Rank& r, const std::string& part) {
  return cudaStreamSynchronize(r.stream) != cudaSuccess &&
         simt::last_report().find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("A group of NCCL exchanges when every rank's stream has come to it", "[simt]") {
  REQUIRE(all_ranks(3, [](const Rank& r) {
    const float base = float(10 * r.rank);
    const float* const from = device_floats({base, base + 1, base + 2});
    float* const to = device_floats({0, 0, 0});
    for (int times = 0; times < 3; ++times) {
      if (!exchange(r, from, to)) return false;
      if (cudaStreamSynchronize(r.stream) != cudaSuccess) return false;
      for (int other = 0; other < 3; ++other)
        if (on_host(to, 3)[size_t(other)] != float(10 * other + r.rank)) return false;
    }
    return true;
  }));
}

// Rank 0 does not wait for rank 1, which starts the exchange only when rank 0 has seen the garbage.
TEST_CASE("What NCCL receives is garbage until it has come", "[simt]") {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  REQUIRE(all_ranks(2, [&](const Rank& r) {
    const float* const from = device_floats({1, 2});
    float* const to = device_floats({0, 0});
    char byte = 0;
    if (r.rank == 1 && read(ends[0], &byte, 1) != 1) return false;
    if (!exchange(r, from, to)) return false;
    if (r.rank == 0) {
      const auto is_garbage = [&] {
        const std::vector<float> values = on_host(to, 2);
        return std::isnan(values[0]) && std::isnan(values[1]);
      };
      for (int tries = 0; !is_garbage(); ++tries) {
        if (tries == 30000) return false;
        usleep(1000);  // until the stream has begun; another stream reads
      }
      if (write(ends[1], &byte, 1) != 1) return false;
    }
    return cudaStreamSynchronize(r.stream) == cudaSuccess && on_host(to, 2)[1] == float(r.rank + 1);
  }));
}

TEST_CASE("NCCL's streams run while their hosts wait for something else", "[simt]") {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  REQUIRE(all_ranks(2, [&](const Rank& r) {
    const float* const from = device_floats({1, 2});
    float* const to = device_floats({0, 0});
    char byte = 0;
    if (!exchange(r, from, to)) return false;
    if (r.rank == 0)
      return cudaStreamSynchronize(r.stream) == cudaSuccess && write(ends[1], &byte, 1) == 1;
    return read(ends[0], &byte, 1) == 1 && cudaStreamSynchronize(r.stream) == cudaSuccess;
  }));
}

TEST_CASE("Ranks that send and receive one by one wait for ever, which is reported", "[simt]") {
  REQUIRE(all_ranks(2, [](const Rank& r) {
    simt::set_nccl_patience(0.5);
    float* const data = device_floats({1, 2});
    const int other = 1 - r.rank;
    return ncclSend(data, 1, ncclFloat32, other, r.comm, r.stream) == ncclSuccess &&
           ncclRecv(data + 1, 1, ncclFloat32, other, r.comm, r.stream) == ncclSuccess &&
           failed_with(r, "waits for ever");
  }));
}

TEST_CASE("A message of another size than its receiver expects is reported", "[simt]") {
  REQUIRE(all_ranks(2, [](const Rank& r) {
    simt::set_nccl_patience(0.5);
    float* const data = device_floats({1, 2});
    if (r.rank == 0) {
      return ncclSend(data, 1, ncclFloat32, 1, r.comm, r.stream) == ncclSuccess &&
             cudaStreamSynchronize(r.stream) == cudaSuccess;
    }
    return ncclRecv(data, 2, ncclFloat32, 0, r.comm, r.stream) == ncclSuccess &&
           failed_with(r, "expects 2 elements of type 7 from rank 0, which has sent 1");
  }));
}

TEST_CASE("Blocks of a group that overlap show", "[simt]") {
  REQUIRE(all_ranks(2, [](const Rank& r) {
    float* const data = device_floats({1, 2});
    return exchange(r, data, data) && cudaStreamSynchronize(r.stream) == cudaSuccess &&
           std::isnan(on_host(data, 2)[0]);
  }));
}

TEST_CASE("NCCL refuses two ranks on one device, host memory and ranks that are not there",
          "[simt]") {
  setenv("SIMT_DEVICE", "7", 1);
  REQUIRE_FALSE(all_ranks(2, [](const Rank&) { return true; }));
  unsetenv("SIMT_DEVICE");
  REQUIRE(all_ranks(1, [](const Rank& r) {
    float value = 0;
    float* const data = device_floats({1});
    return ncclSend(&value, 1, ncclFloat32, 0, r.comm, r.stream) == ncclInvalidArgument &&
           ncclSend(data, 2, ncclFloat32, 0, r.comm, r.stream) == ncclInvalidArgument &&
           ncclSend(data, 1, ncclFloat32, 1, r.comm, r.stream) == ncclInvalidArgument &&
           ncclGroupEnd() == ncclInvalidUsage;
  }));
}
