// Kernels with mistakes that the runner must show.

#include <algorithm>
#include <stdexcept>

#include "runner.h"

namespace {

__global__ void __launch_bounds__(64) record_order(int* order, int* next) {
  order[atomicAdd(next, 1)] = blockIdx.x * blockDim.x + threadIdx.x;
}

// Reverses a block's values through shared memory.
__global__ void __launch_bounds__(64) reverse_without_barrier(int* out) {
  __shared__ int values[64];
  values[threadIdx.x] = blockIdx.x * 64 + threadIdx.x;
  out[blockIdx.x * 64 + threadIdx.x] = values[63 - threadIdx.x];
}

__global__ void __launch_bounds__(64) half_of_the_block_waits(int* out) {
  if (threadIdx.x >= 50) return;
  __syncthreads();
  out[threadIdx.x] = 1;
}

__global__ void __launch_bounds__(64) two_barriers(int* out) {
  if (threadIdx.x % 2 == 0) {
    __syncthreads();
  } else {
    __syncthreads();
  }
  out[threadIdx.x] = 1;
}

__global__ void __launch_bounds__(64) warp_against_block(int* out) {
  if (threadIdx.x == 3) {
    __syncthreads();
  } else {
    __syncwarp();
  }
  out[threadIdx.x] = 1;
}

__global__ void __launch_bounds__(64) reads_exited_lane(int* out) {
  if (threadIdx.x >= 16) return;
  out[threadIdx.x] = __shfl_xor_sync(~0u, 1, 16);
}

__global__ void __launch_bounds__(64) reads_outside_mask(int* out) {
  if (threadIdx.x < 16) out[threadIdx.x] = __shfl_sync(0xffff, 1, 20);
}

__global__ void __launch_bounds__(64) not_in_own_mask(int* out) {
  out[threadIdx.x] = __ballot_sync(0xfffe, 1);
}

// Both halves name lane 15, which comes with the lower half.
__global__ void __launch_bounds__(64) disagrees_on_the_mask(int* out) {
  out[threadIdx.x] = __ballot_sync(threadIdx.x % 32 < 16 ? ~0u : 0xffff8000, 1);
}

int unwound = 0;

__global__ void __launch_bounds__(64) holds_an_object(int* out) {
  struct Guard {
    ~Guard() { ++unwound; }
  };
  const Guard guard;
  if (threadIdx.x > 0) __syncthreads();
  out[threadIdx.x] = 1;
}

__global__ void __launch_bounds__(64) throws(int* out) {
  out[threadIdx.x] = 1;
  if (threadIdx.x == 5) throw std::runtime_error("from a kernel");
  __syncthreads();
}

__global__ void __launch_bounds__(64) fill(float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = 1;
}

__global__ void __launch_bounds__(64) overrun_shared(int* out, int i) {
  __shared__ int values[64];
  values[threadIdx.x + i] = 1;
  __syncthreads();
  out[threadIdx.x] = values[threadIdx.x];
}

std::vector<int> order_with(uint64_t seed) {
  simt::set_seed(seed);
  Array<int> order(4 * 64), next(std::vector<int>{0});
  REQUIRE(launch(4, 64, record_order, order.data(), next.data()) == cudaSuccess);
  return order.read();
}

// The report of a kernel of 64 threads that cannot end well.
std::string failure_of(void (*kernel)(int*)) {
  simt::reset();
  Array<int> out(64 * 4);
  REQUIRE(launch(4, 64, kernel, out.data()) == cudaSuccess);
  CHECK(cudaDeviceSynchronize() == cudaErrorLaunchFailure);
  CHECK(cudaDeviceSynchronize() == cudaErrorLaunchFailure);  // for good
  CHECK(cudaGetLastError() == cudaErrorLaunchFailure);
  CHECK(cudaGetErrorString(cudaErrorLaunchFailure) ==
        "unspecified launch failure: " + simt::last_report());
  return simt::last_report();
}

}  // namespace

TEST_CASE("Blocks, warps and lanes run in an order that the seed decides", "[simt]") {
  const FreshDevice fresh;
  const std::vector<int> order = order_with(1);
  CHECK(order == order_with(1));
  CHECK(order != order_with(2));
  std::vector<int> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  for (int i = 0; i < 256; ++i) CHECK(sorted[i] == i);

  bool block_first[4] = {}, warp_first[2] = {}, lane_first[32] = {};
  for (int seed = 0; seed < 100; ++seed) {
    const int first = order_with(seed)[0];
    block_first[first / 64] = warp_first[first % 64 / 32] = lane_first[first % 32] = true;
  }
  CHECK(std::count(block_first, block_first + 4, true) == 4);
  CHECK(std::count(warp_first, warp_first + 2, true) == 2);
  CHECK(std::count(lane_first, lane_first + 32, true) > 16);
}

TEST_CASE("A missing barrier gives a wrong result under some seed", "[simt]") {
  const FreshDevice fresh;
  std::vector<int> expected(4 * 64);
  for (int i = 0; i < 4 * 64; ++i) expected[i] = i / 64 * 64 + 63 - i % 64;
  int wrong = 0;
  for (const uint64_t seed : {1, 2, 3}) {
    simt::set_seed(seed);
    Array<int> out(4 * 64);
    REQUIRE(launch(4, 64, reverse_without_barrier, out.data()) == cudaSuccess);
    wrong += out.read() != expected;
  }
  CHECK(wrong >= 1);
}

TEST_CASE("A barrier that not all threads reach is reported, with the block", "[simt]") {
  const FreshDevice fresh;
  const std::string report = failure_of(half_of_the_block_waits);
  CAPTURE(report);
  CHECK_THAT(report, ContainsSubstring("block (") && ContainsSubstring("of (4, 1, 1)"));
  CHECK_THAT(report, ContainsSubstring("14 of 64 threads exited"));
  CHECK_THAT(report, ContainsSubstring("50 of 64 threads wait in __syncthreads at ") &&
                         ContainsSubstring("faults.cpp:") &&
                         ContainsSubstring("half_of_the_block_waits"));
}

TEST_CASE("Threads of a block at different barriers are reported", "[simt]") {
  const FreshDevice fresh;
  CHECK_THAT(failure_of(two_barriers), ContainsSubstring("all threads must come to one barrier"));
  const std::string report = failure_of(warp_against_block);
  CHECK_THAT(report, ContainsSubstring("1 of 64 threads wait in __syncthreads"));
  CHECK_THAT(report, ContainsSubstring("wait in __syncwarp with mask 0xffffffff"));
}

TEST_CASE("A shuffle with a lane that is not there is reported", "[simt]") {
  const FreshDevice fresh;
  CHECK_THAT(failure_of(reads_exited_lane),
             ContainsSubstring("which has exited or does not exist"));
  CHECK_THAT(failure_of(reads_outside_mask),
             ContainsSubstring("reads lane 20, which is not in the mask"));
  CHECK_THAT(failure_of(disagrees_on_the_mask), ContainsSubstring("no thread can go on"));
  CHECK_THAT(failure_of(not_in_own_mask), ContainsSubstring("does not name its own lane"));
}

TEST_CASE("After a failure and a reset the device works again", "[simt]") {
  const FreshDevice fresh;
  REQUIRE(launch(1, 64, half_of_the_block_waits, static_cast<int*>(nullptr)) == cudaSuccess);
  REQUIRE(cudaDeviceSynchronize() == cudaErrorLaunchFailure);
  float* pointer = nullptr;
  CHECK(cudaMalloc(&pointer, 4) == cudaErrorLaunchFailure);
  simt::reset();
  CHECK(simt::last_report().empty());
  CHECK(cudaGetLastError() == cudaSuccess);
  Array<float> out(100);
  REQUIRE(launch(2, 64, fill, out.data(), 100) == cudaSuccess);
  CHECK(out.read() == std::vector<float>(100, 1.0f));
}

TEST_CASE("The threads of a failed block are unwound", "[simt]") {
  const FreshDevice fresh;
  unwound = 0;
  failure_of(holds_an_object);
  CHECK(unwound == 64);
}

TEST_CASE("An exception in a kernel comes out of the call that waits", "[simt]") {
  const FreshDevice fresh;
  Array<int> out(64);
  REQUIRE(launch(1, 64, throws, out.data()) == cudaSuccess);
  REQUIRE_ERROR(cudaDeviceSynchronize(), "from a kernel");
  CHECK(cudaDeviceSynchronize() == cudaErrorLaunchFailure);
}

TEST_CASE("AddressSanitizer sees a kernel write one float too far", "[simt]") {
  if (!address_sanitizer) return;
  const FreshDevice fresh;
  const std::string report = report_of_death([] {
    Array<float> out(100);
    launch(2, 64, fill, out.data(), 101);
    cudaDeviceSynchronize();
  });
  CHECK_THAT(report, ContainsSubstring("heap-buffer-overflow") && ContainsSubstring("fill"));
}

// If UndefinedBehaviorSanitizer is on, too, it reports the overrun first wherever the compiler
// knows the array's size.
TEST_CASE("The sanitizers see a kernel leave its shared memory", "[simt]") {
  if (!address_sanitizer) return;
  const FreshDevice fresh;
  const std::string report = report_of_death([] {
    Array<int> out(64);
    launch(1, 64, overrun_shared, out.data(), 1);
    cudaDeviceSynchronize();
  });
  CHECK_THAT(report, ContainsSubstring("faults.cpp"));
}

TEST_CASE("AddressSanitizer sees the host touch device memory", "[simt]") {
  if (!address_sanitizer) return;
  const FreshDevice fresh;
  Array<float> values(std::vector<float>(10, 1.0f));
  volatile float* pointer = values.data();
  CHECK_THAT(report_of_death([&] { pointer[3] = pointer[2]; }),
             ContainsSubstring("use-after-poison"));
  values.read();
  CHECK_THAT(report_of_death([&] { pointer[9] = 0; }), ContainsSubstring("use-after-poison"));
}

TEST_CASE("AddressSanitizer sees a kernel use what was freed", "[simt]") {
  if (!address_sanitizer) return;
  const FreshDevice fresh;
  const std::string report = report_of_death([] {
    float* pointer = nullptr;
    cudaMalloc(&pointer, 400);
    cudaFree(pointer);
    launch(2, 64, fill, pointer, 100);
    cudaDeviceSynchronize();
  });
  CHECK_THAT(report, ContainsSubstring("heap-use-after-free"));
}

// Large blocks are used again, but only after four others have been freed.
TEST_CASE("AddressSanitizer sees a kernel use a large block that was freed", "[simt]") {
  if (!address_sanitizer) return;
  const FreshDevice fresh;
  for (const int younger : {0, 3}) {
    const std::string report = report_of_death([&] {
      constexpr size_t bytes = 1 << 20;
      float *freed = nullptr, *other = nullptr;
      cudaMalloc(&freed, bytes);
      cudaFree(freed);
      for (int i = 0; i < younger; ++i) {
        cudaMalloc(&other, bytes);
        cudaFree(other);
      }
      cudaMalloc(&other, bytes);
      launch(2, 64, fill, freed, 100);
      cudaDeviceSynchronize();
    });
    CHECK_THAT(report, ContainsSubstring("use-after-poison") && ContainsSubstring("fill"));
  }
}
