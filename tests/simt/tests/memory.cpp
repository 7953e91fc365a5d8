// Device memory: its contents, its ends, and the calls that are refused.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>

#include "runner.h"

TEST_CASE("Device memory begins as NaN, aligned to 256 bytes", "[simt]") {
  const FreshDevice fresh;
  Array<float> values(7);
  CHECK(reinterpret_cast<uintptr_t>(values.data()) % 256 == 0);
  for (const float value : values.read()) CHECK(std::isnan(value));
}

TEST_CASE("A large block that is used again begins as NaN and is guarded", "[simt]") {
  const FreshDevice fresh;
  constexpr size_t n = (1 << 18) + 1;
  std::set<float*> seen;
  for (bool again = false; !again;) {
    REQUIRE(seen.size() < 20);
    Array<float> values(n);
    again = !seen.insert(values.data()).second;
    const std::vector<float> read = values.read();
    CHECK(std::all_of(read.begin(), read.end(), [](float value) { return std::isnan(value); }));
    CHECK(cudaMemset(values.data(), 0, n * sizeof(float)) == cudaSuccess);
    CHECK(cudaMemset(values.data(), 0, n * sizeof(float) + 1) == cudaErrorInvalidValue);
    if (!again || !address_sanitizer) continue;
    volatile float* const pointer = values.data();
    for (const size_t at : {size_t{0}, n - 1, n})
      CHECK_FALSE(report_of_death([&] { pointer[at] = 0; }).empty());
  }
}

TEST_CASE("Live device memory is counted", "[simt]") {
  const FreshDevice fresh;
  const size_t bytes = simt::live_device_bytes(), blocks = simt::live_device_blocks();
  {
    Array<char> a(1000), b(24);
    CHECK(simt::live_device_bytes() == bytes + 1024);
    CHECK(simt::live_device_blocks() == blocks + 2);
  }
  CHECK(simt::live_device_bytes() == bytes);
  CHECK(simt::live_device_blocks() == blocks);
}

TEST_CASE("The device runs out of memory at the set limit", "[simt]") {
  const FreshDevice fresh;
  simt::set_device_memory(simt::live_device_bytes() + 1000);
  size_t free = 0, total = 0;
  char *a = nullptr, *b = nullptr;
  CHECK(cudaMalloc(&a, 1001) == cudaErrorMemoryAllocation);
  CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
  CHECK(cudaMalloc(&a, 600) == cudaSuccess);
  CHECK(cudaMalloc(&b, 401) == cudaErrorMemoryAllocation);
  CHECK(cudaMemGetInfo(&free, &total) == cudaSuccess);
  CHECK(free == 400);
  CHECK(cudaFree(a) == cudaSuccess);
  CHECK(cudaMalloc(&b, 1000) == cudaSuccess);
  CHECK(cudaFree(b) == cudaSuccess);
}

TEST_CASE("A free of what was not allocated is refused", "[simt]") {
  const FreshDevice fresh;
  int host = 0;
  char* pointer = nullptr;
  CHECK(cudaFree(nullptr) == cudaSuccess);
  CHECK(cudaFree(&host) == cudaErrorInvalidValue);
  REQUIRE(cudaMalloc(&pointer, 10) == cudaSuccess);
  CHECK(cudaFree(pointer + 1) == cudaErrorInvalidValue);
  CHECK(cudaFreeHost(pointer) == cudaErrorInvalidValue);
  CHECK(cudaFree(pointer) == cudaSuccess);
  CHECK(cudaFree(pointer) == cudaErrorInvalidValue);
}

TEST_CASE("A copy must say what its pointers are, and stay inside one block", "[simt]") {
  const FreshDevice fresh;
  std::vector<int> host(8, 1);
  Array<int> a(std::vector<int>(8, 2)), b(8);
  const auto copy = [](void* dst, const void* src, size_t n, cudaMemcpyKind kind) {
    return cudaMemcpy(dst, src, n * sizeof(int), kind);
  };
  CHECK(copy(a.data(), host.data(), 9, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
  CHECK(copy(a.data() + 1, host.data(), 8, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
  CHECK(copy(host.data(), a.data() - 1, 4, cudaMemcpyDeviceToHost) == cudaErrorInvalidValue);
  CHECK(copy(a.data(), b.data(), 8, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
  CHECK(copy(host.data(), a.data(), 8, cudaMemcpyHostToHost) == cudaErrorInvalidValue);
  CHECK(copy(a.data(), host.data(), 8, cudaMemcpyDeviceToDevice) == cudaErrorInvalidValue);
  CHECK(copy(nullptr, a.data(), 8, cudaMemcpyDeviceToHost) == cudaErrorInvalidValue);
  CHECK(cudaMemset(a.data(), 0, 33) == cudaErrorInvalidValue);
  CHECK(cudaMemset(host.data(), 0, 4) == cudaErrorInvalidValue);
  CHECK(a.read() == std::vector<int>(8, 2));

  CHECK(copy(b.data() + 4, a.data(), 4, cudaMemcpyDefault) == cudaSuccess);
  CHECK(copy(b.data(), host.data(), 4, cudaMemcpyDefault) == cudaSuccess);
  CHECK(b.read() == std::vector<int>{1, 1, 1, 1, 2, 2, 2, 2});
  CHECK(cudaMemset(b.data() + 7, 0, 4) == cudaSuccess);
  CHECK(b.read().back() == 0);
}

TEST_CASE("A copy into a freed block fails when it runs", "[simt]") {
  const FreshDevice fresh;
  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  char* pointer = nullptr;
  REQUIRE(cudaMalloc(&pointer, 16) == cudaSuccess);
  REQUIRE(cudaStreamCreate(&stream) == cudaSuccess);
  REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed) == cudaSuccess);
  REQUIRE(cudaMemsetAsync(pointer, 0, 16, stream) == cudaSuccess);
  REQUIRE(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
  REQUIRE(cudaGraphInstantiate(&exec, graph) == cudaSuccess);
  REQUIRE(cudaFree(pointer) == cudaSuccess);
  REQUIRE(cudaGraphLaunch(exec, stream) == cudaSuccess);
  CHECK(cudaStreamSynchronize(stream) == cudaErrorIllegalAddress);
  CHECK_THAT(simt::last_report(), ContainsSubstring("a memset's target"));
  simt::reset();
  CHECK(cudaGraphExecDestroy(exec) == cudaSuccess);
  CHECK(cudaGraphDestroy(graph) == cudaSuccess);
  CHECK(cudaStreamDestroy(stream) == cudaSuccess);
}
