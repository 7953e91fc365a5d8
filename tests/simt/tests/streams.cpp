// Asynchrony: when work is promised to be done, and what happens without a wait.

#include <cstdlib>
#include <set>
#include <thread>

#include "runner.h"

namespace {

__global__ void __launch_bounds__(1) set_to(int* out, int value) { *out = value; }
__global__ void __launch_bounds__(1) add(int* out, const int* in) { *out += *in; }

struct Stream {
  explicit Stream(unsigned flags = cudaStreamNonBlocking) {
    REQUIRE(cudaStreamCreateWithFlags(&handle, flags) == cudaSuccess);
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() { cudaStreamDestroy(handle); }
  operator cudaStream_t() const { return handle; }
  cudaStream_t handle = nullptr;
};

struct Event {
  explicit Event(unsigned flags = cudaEventDefault) {
    REQUIRE(cudaEventCreateWithFlags(&handle, flags) == cudaSuccess);
  }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event() { cudaEventDestroy(handle); }
  operator cudaEvent_t() const { return handle; }
  cudaEvent_t handle = nullptr;
};

struct Pinned {
  Pinned() { REQUIRE(cudaMallocHost(&value, sizeof(int)) == cudaSuccess); }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  ~Pinned() { cudaFreeHost(value); }
  int* value = nullptr;
};

template <class... Expected, class... Actual>
cudaError_t launch_on(cudaStream_t stream, void (*kernel)(Expected...), Actual... args) {
  const cudaLaunchConfig_t config{1, 1, 0, stream, nullptr, 0};
  return cudaLaunchKernelEx(&config, kernel, args...);
}

constexpr auto to_device = cudaMemcpyHostToDevice, to_host = cudaMemcpyDeviceToHost;

}  // namespace

TEST_CASE("Nothing has happened until something waits", "[simt]") {
  const FreshDevice fresh;
  const Stream stream;
  Array<int> value(std::vector<int>{1});
  Pinned host;
  *host.value = 0;
  REQUIRE(launch_on(stream, set_to, value.data(), 5) == cudaSuccess);
  REQUIRE(cudaMemcpyAsync(host.value, value.data(), 4, to_host, stream) == cudaSuccess);
  CHECK(*host.value == 0);
  REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
  CHECK(*host.value == 5);
}

TEST_CASE("A copy reads pageable memory at once and pinned memory when it runs", "[simt]") {
  const FreshDevice fresh;
  const Stream stream;
  Array<int> from_pageable(1), from_pinned(1);
  int pageable = 1;
  Pinned pinned;
  *pinned.value = 1;
  REQUIRE(cudaMemcpyAsync(from_pageable.data(), &pageable, 4, to_device, stream) == cudaSuccess);
  REQUIRE(cudaMemcpyAsync(from_pinned.data(), pinned.value, 4, to_device, stream) == cudaSuccess);
  pageable = *pinned.value = 2;
  REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
  CHECK(from_pageable.read()[0] == 1);
  CHECK(from_pinned.read()[0] == 2);
}

TEST_CASE("A device that reads pageable memory copies from it when the copy runs", "[simt]") {
  const FreshDevice fresh;
  const Stream stream;
  const auto reads_itself = [] {
    int value = -1;
    REQUIRE(cudaDeviceGetAttribute(&value, cudaDevAttrPageableMemoryAccess, 0) == cudaSuccess);
    return value;
  };
  CHECK(reads_itself() == 0);
  simt::set_pageable_access(true);
  simt::set_pageable_copies(simt::PageableCopies::deferred);
  CHECK(reads_itself() == 1);
  Array<int> copied(1);
  int pageable = 1;
  REQUIRE(cudaMemcpyAsync(copied.data(), &pageable, 4, to_device, stream) == cudaSuccess);
  pageable = 2;
  REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
  CHECK(copied.read()[0] == 2);
}

TEST_CASE("A copy to pageable memory may be over when it returns, or not", "[simt]") {
  const FreshDevice fresh;
  const Stream stream;
  Array<int> value(std::vector<int>{1});
  const auto copies_over = [&](simt::PageableCopies copies) {
    simt::set_pageable_copies(copies);
    int over = 0;
    for (int seed = 0; seed < 8; ++seed) {
      simt::set_seed(seed);
      int host = 0;
      REQUIRE(cudaMemcpyAsync(&host, value.data(), 4, to_host, stream) == cudaSuccess);
      over += host == 1;
      REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
      CHECK(host == 1);
    }
    return over;
  };
  CHECK(copies_over(simt::PageableCopies::deferred) == 0);
  CHECK(copies_over(simt::PageableCopies::waiting) == 8);
  const int over = copies_over(simt::PageableCopies::either);
  CHECK(over > 0);
  CHECK(over < 8);
}

TEST_CASE("A copy from pageable memory may wait for what is before it", "[simt]") {
  const FreshDevice fresh;
  const Stream stream;
  Array<int> first(1), second(1);
  Pinned before;
  const int pageable = 7;
  for (const auto copies : {simt::PageableCopies::deferred, simt::PageableCopies::waiting}) {
    simt::set_pageable_copies(copies);
    *before.value = 1;
    REQUIRE(cudaMemcpyAsync(first.data(), before.value, 4, to_device, stream) == cudaSuccess);
    REQUIRE(cudaMemcpyAsync(second.data(), &pageable, 4, to_device, stream) == cudaSuccess);
    *before.value = 2;
    REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
    CHECK(first.read()[0] == (copies == simt::PageableCopies::waiting ? 1 : 2));
    CHECK(second.read()[0] == 7);
  }
}

TEST_CASE("A blocking copy does not wait for a non-blocking stream, but for the others", "[simt]") {
  const FreshDevice fresh;
  int stale = 0;
  for (int seed = 0; seed < 8; ++seed) {
    simt::set_seed(seed);
    const Stream apart, ordered(cudaStreamDefault);
    Array<int> a(std::vector<int>{1}), b(std::vector<int>{1});
    REQUIRE(launch_on(apart, set_to, a.data(), 2) == cudaSuccess);
    REQUIRE(launch_on(ordered, set_to, b.data(), 2) == cudaSuccess);
    CHECK(b.read()[0] == 2);
    stale += a.read()[0] == 1;
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    CHECK(a.read()[0] == 2);
  }
  CHECK(stale > 0);
}

TEST_CASE("Streams run in either order, unless an event orders them", "[simt]") {
  const FreshDevice fresh;
  // The first stream replaces 1 by 10. Returns the value that the second stream reads there.
  const auto seen = [](int seed, bool ordered) {
    simt::set_seed(seed);
    const Stream first, second;
    const Event event(cudaEventDisableTiming);
    Array<int> x(std::vector<int>{1}), y(std::vector<int>{0});
    REQUIRE(launch_on(first, set_to, x.data(), 10) == cudaSuccess);
    REQUIRE(cudaEventRecord(event, first) == cudaSuccess);
    if (ordered) REQUIRE(cudaStreamWaitEvent(second, event, 0) == cudaSuccess);
    REQUIRE(launch_on(second, add, y.data(), x.data()) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(second) == cudaSuccess);
    return y.read()[0];
  };
  int early = 0;
  for (int seed = 0; seed < 8; ++seed) {
    CHECK(seen(seed, true) == 10);
    early += seen(seed, false) == 1;
  }
  CHECK(early > 0);
  CHECK(early < 8);
}

TEST_CASE("Queries get there in the end, and events tell the time", "[simt]") {
  const FreshDevice fresh;
  const Stream stream;
  const Event start, end;
  Array<int> x(std::vector<int>{0});
  float ms = -1;
  CHECK(cudaEventQuery(start) == cudaSuccess);  // never recorded
  CHECK(cudaEventElapsedTime(&ms, start, end) == cudaErrorInvalidResourceHandle);
  REQUIRE(cudaEventRecord(start, stream) == cudaSuccess);
  for (int i = 0; i < 20; ++i) REQUIRE(launch_on(stream, set_to, x.data(), i) == cudaSuccess);
  REQUIRE(cudaEventRecord(end, stream) == cudaSuccess);
  CHECK(cudaEventElapsedTime(&ms, start, end) == cudaErrorNotReady);
  while (cudaEventQuery(end) == cudaErrorNotReady) {
  }
  CHECK(cudaStreamQuery(stream) == cudaSuccess);
  CHECK(cudaEventElapsedTime(&ms, start, end) == cudaSuccess);
  CHECK(ms >= 0);
  CHECK(x.read()[0] == 19);
}

TEST_CASE("A query may find a stream busy", "[simt]") {
  const FreshDevice fresh;
  const Stream stream;
  Array<int> x(std::vector<int>{0});
  int busy = 0;
  for (int round = 0; round < 8; ++round) {
    for (int i = 0; i < 4; ++i) REQUIRE(launch_on(stream, set_to, x.data(), i) == cudaSuccess);
    while (cudaStreamQuery(stream) == cudaErrorNotReady) ++busy;
  }
  CHECK(busy > 0);
  CHECK(cudaGetLastError() == cudaErrorNotReady);
}

TEST_CASE("A free waits for the work that may use the block", "[simt]") {
  const FreshDevice fresh;
  const Stream stream;
  Array<int> result(std::vector<int>{1});
  {
    Array<int> x(std::vector<int>{41});
    REQUIRE(launch_on(stream, add, result.data(), x.data()) == cudaSuccess);
  }
  CHECK(result.read()[0] == 42);
}

TEST_CASE("Handles that are none are refused", "[simt]") {
  const FreshDevice fresh;
  cudaStream_t gone = nullptr;
  REQUIRE(cudaStreamCreate(&gone) == cudaSuccess);
  REQUIRE(cudaStreamDestroy(gone) == cudaSuccess);
  CHECK(cudaStreamSynchronize(gone) == cudaErrorInvalidResourceHandle);
  CHECK(cudaEventRecord(nullptr, nullptr) == cudaErrorInvalidResourceHandle);
}

TEST_CASE("A captured graph runs when launched, as often as launched", "[simt]") {
  const FreshDevice fresh;
  const Stream stream;
  const Event event(cudaEventDisableTiming);
  Array<int> x(std::vector<int>{3}), sum(std::vector<int>{0});
  cudaStreamCaptureStatus status;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  REQUIRE(launch_on(stream, add, sum.data(), x.data()) == cudaSuccess);
  REQUIRE(cudaEventRecord(event, stream) == cudaSuccess);
  REQUIRE(cudaStreamWaitEvent(stream, event) == cudaSuccess);
  REQUIRE(launch_on(stream, add, sum.data(), sum.data()) == cudaSuccess);
  REQUIRE(cudaStreamIsCapturing(stream, &status) == cudaSuccess);
  CHECK(status == cudaStreamCaptureStatusActive);
  REQUIRE(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
  REQUIRE(cudaStreamIsCapturing(stream, &status) == cudaSuccess);
  CHECK(status == cudaStreamCaptureStatusNone);

  size_t nodes = 0;
  REQUIRE(cudaGraphGetNodes(graph, nullptr, &nodes) == cudaSuccess);
  CHECK(nodes == 2);
  REQUIRE(cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess);
  REQUIRE(cudaGraphDestroy(graph) == cudaSuccess);
  REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
  CHECK(sum.read()[0] == 0);
  for (int i = 0; i < 3; ++i) REQUIRE(cudaGraphLaunch(exec, stream) == cudaSuccess);
  REQUIRE(cudaGraphExecDestroy(exec) == cudaSuccess);  // the launched ones still run
  REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
  CHECK(sum.read()[0] == 42);  // ((0 + 3) * 2 + 3) * 2 and so on
}

TEST_CASE("Captures fail from a piece of work on, at once or at their end", "[simt]") {
  const FreshDevice fresh;
  const Stream stream;
  Array<int> x(std::vector<int>{3});
  cudaGraph_t graph = nullptr;
  for (const auto by : {simt::RefusedBy::call, simt::RefusedBy::end}) {
    const bool at_once = by == simt::RefusedBy::call;
    simt::refuse_captures_from(1, by);
    REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
    CHECK(launch_on(stream, add, x.data(), x.data()) == cudaSuccess);
    CHECK(launch_on(stream, add, x.data(), x.data()) ==
          (at_once ? cudaErrorStreamCaptureUnsupported : cudaSuccess));
    CHECK(launch_on(stream, add, x.data(), x.data()) ==
          (at_once ? cudaErrorStreamCaptureInvalidated : cudaSuccess));
    CHECK(cudaStreamEndCapture(stream, &graph) == cudaErrorStreamCaptureInvalidated);
    CHECK(graph == nullptr);
    REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
    CHECK(launch_on(stream, add, x.data(), x.data()) == cudaSuccess);
    REQUIRE(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
    REQUIRE(cudaGraphDestroy(graph) == cudaSuccess);
  }
  CHECK(x.read()[0] == 3);
}

TEST_CASE("Graphs in a graph run once those they depend on have run", "[simt]") {
  const FreshDevice fresh;
  const Stream stream;
  Array<int> x(std::vector<int>{3}), sum(std::vector<int>{0});
  const auto captured = [&](const int* added) {
    cudaGraph_t graph = nullptr;
    REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
    REQUIRE(launch_on(stream, add, sum.data(), added) == cudaSuccess);
    REQUIRE(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
    return graph;
  };
  const cudaGraph_t add_x = captured(x.data()), add_twice = captured(sum.data());
  const auto result = [&](bool ordered, uint64_t seed) {
    simt::set_seed(seed);
    cudaGraph_t whole = nullptr;
    cudaGraphExec_t exec = nullptr;
    cudaGraphNode_t first = nullptr, second = nullptr;
    REQUIRE(cudaGraphCreate(&whole, 0) == cudaSuccess);
    REQUIRE(cudaGraphAddChildGraphNode(&first, whole, nullptr, 0, add_x) == cudaSuccess);
    REQUIRE(cudaGraphAddChildGraphNode(&second, whole, &first, ordered ? 1 : 0, add_twice) ==
            cudaSuccess);
    REQUIRE(cudaGraphInstantiate(&exec, whole, 0) == cudaSuccess);
    // The second node belongs to another graph.
    CHECK(cudaGraphAddChildGraphNode(&second, add_x, &first, 1, add_twice) ==
          cudaErrorInvalidValue);
    REQUIRE(cudaGraphDestroy(whole) == cudaSuccess);
    REQUIRE(launch_on(stream, set_to, sum.data(), 0) == cudaSuccess);
    REQUIRE(cudaGraphLaunch(exec, stream) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
    REQUIRE(cudaGraphExecDestroy(exec) == cudaSuccess);
    return sum.read()[0];
  };
  std::set<int> ordered, unordered;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    ordered.insert(result(true, seed));
    unordered.insert(result(false, seed));
  }
  CHECK(ordered == std::set{6});
  CHECK(unordered == std::set{3, 6});
  for (const cudaGraph_t graph : {add_x, add_twice})
    REQUIRE(cudaGraphDestroy(graph) == cudaSuccess);
}

TEST_CASE("Calls that wait or allocate end a capture with CUDA's error", "[simt]") {
  const FreshDevice fresh;
  Array<int> x(std::vector<int>{1});
  const Event event;
  const Pinned pinned;
  int host = 0;
  int* pointer = nullptr;
  cudaGraph_t graph = nullptr;
  // `call` fails on the capturing stream with `error`; then the capture cannot end well.
  const auto refused = [&](auto call, cudaStreamCaptureMode mode, unsigned flags) {
    const Stream stream(flags);
    REQUIRE(cudaStreamBeginCapture(stream, mode) == cudaSuccess);
    const cudaError_t error = call(stream.handle);
    CHECK(launch_on(stream, set_to, x.data(), 1) ==
          (error == cudaSuccess ? cudaSuccess : cudaErrorStreamCaptureInvalidated));
    CHECK(cudaStreamEndCapture(stream, &graph) ==
          (error == cudaSuccess ? cudaSuccess : cudaErrorStreamCaptureInvalidated));
    if (graph != nullptr) REQUIRE(cudaGraphDestroy(graph) == cudaSuccess);
    if (pointer != nullptr) REQUIRE(cudaFree(std::exchange(pointer, nullptr)) == cudaSuccess);
    return error;
  };
  const auto global = cudaStreamCaptureModeGlobal, relaxed = cudaStreamCaptureModeRelaxed;
  const unsigned apart = cudaStreamNonBlocking, ordered = cudaStreamDefault;
  const auto sync = [](cudaStream_t stream) { return cudaStreamSynchronize(stream); };
  const auto sync_all = [](cudaStream_t) { return cudaDeviceSynchronize(); };
  const auto query = [](cudaStream_t stream) { return cudaStreamQuery(stream); };
  const auto event_query = [&](cudaStream_t) { return cudaEventQuery(event); };
  const auto allocate = [&](cudaStream_t) { return cudaMalloc(&pointer, 4); };
  const auto release = [&](cudaStream_t) { return cudaFree(x.data()); };
  const auto release_host = [&](cudaStream_t) { return cudaFreeHost(pinned.value); };
  const auto copy = [&](cudaStream_t) { return cudaMemcpy(&host, x.data(), 4, to_host); };
  const auto read = [&](cudaStream_t stream) {
    return cudaMemcpyAsync(&host, x.data(), 4, to_host, stream);
  };
  const auto write = [&](cudaStream_t stream) {
    return cudaMemcpyAsync(x.data(), &host, 4, to_device, stream);
  };
  const auto query_captured = [&](cudaStream_t stream) {
    REQUIRE(cudaEventRecord(event, stream) == cudaSuccess);
    return cudaEventQuery(event);
  };
  const auto wait_for_captured = [&](cudaStream_t stream) {
    REQUIRE(cudaEventRecord(event, stream) == cudaSuccess);
    return cudaEventSynchronize(event);
  };
  const auto legacy = [&](cudaStream_t) { return launch_on(nullptr, set_to, x.data(), 1); };
  const cudaError_t unsupported = cudaErrorStreamCaptureUnsupported;

  CHECK(refused(sync, global, apart) == unsupported);
  CHECK(refused(sync, relaxed, apart) == unsupported);
  CHECK(refused(sync_all, relaxed, apart) == unsupported);
  CHECK(refused(query, relaxed, apart) == unsupported);
  CHECK(refused(event_query, global, apart) == unsupported);
  CHECK(refused(allocate, global, apart) == unsupported);
  CHECK(refused(release, global, apart) == unsupported);
  CHECK(refused(copy, global, apart) == unsupported);
  CHECK(refused(copy, relaxed, ordered) == cudaErrorStreamCaptureImplicit);
  CHECK(refused(legacy, relaxed, ordered) == cudaErrorStreamCaptureImplicit);
  CHECK(refused(legacy, relaxed, apart) == cudaSuccess);
  CHECK(refused(allocate, relaxed, apart) == cudaSuccess);
  CHECK(refused(release, relaxed, apart) == unsupported);
  CHECK(refused(release_host, relaxed, apart) == unsupported);
  CHECK(refused(read, relaxed, apart) == unsupported);
  CHECK(refused(write, relaxed, apart) == unsupported);
  CHECK(refused(query_captured, relaxed, apart) == cudaErrorCapturedEvent);
  CHECK(refused(wait_for_captured, relaxed, apart) == cudaErrorCapturedEvent);
}

TEST_CASE("A thread may exempt itself from the rules of a global capture", "[simt]") {
  const FreshDevice fresh;
  const Stream stream;
  int* pointer = nullptr;
  cudaGraph_t graph = nullptr;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
  REQUIRE(cudaThreadExchangeStreamCaptureMode(&mode) == cudaSuccess);
  CHECK(mode == cudaStreamCaptureModeGlobal);
  CHECK(cudaMalloc(&pointer, 4) == cudaSuccess);
  REQUIRE(cudaThreadExchangeStreamCaptureMode(&mode) == cudaSuccess);
  CHECK(mode == cudaStreamCaptureModeRelaxed);
  REQUIRE(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
  CHECK(cudaGraphDestroy(graph) == cudaSuccess);
  CHECK(cudaFree(pointer) == cudaSuccess);
}

TEST_CASE("Each thread begins on the first device, and streams and events stay on theirs",
          "[simt]") {
  const FreshDevice fresh;
  setenv("SIMT_DEVICES", "2", 1);
  int devices = 0;
  CHECK(cudaGetDeviceCount(&devices) == cudaSuccess);
  CHECK(devices == 2);
  CHECK(cudaSetDevice(2) == cudaErrorInvalidDevice);
  REQUIRE(cudaSetDevice(1) == cudaSuccess);
  {
    const Stream stream;
    const Event event;
    CHECK(cudaEventRecord(event, stream) == cudaSuccess);
    // The results of the thread are judged after the join.
    int begins_on = -1;
    cudaError_t refused = cudaSuccess, taken = cudaErrorUnknown, elsewhere = cudaSuccess;
    std::string why;
    std::thread([&] {
      cudaGetDevice(&begins_on);
      refused = cudaStreamSynchronize(stream);
      why = simt::last_report();
      cudaSetDevice(1);
      taken = cudaStreamSynchronize(stream);
      cudaSetDevice(0);
      cudaEvent_t here = nullptr;
      cudaEventCreate(&here);
      cudaSetDevice(1);
      elsewhere = cudaEventRecord(here, stream);
      cudaEventDestroy(here);
    }).join();
    CHECK(begins_on == 0);
    CHECK(refused == cudaErrorInvalidResourceHandle);
    CHECK(why.find("a stream of device 1 is used by a thread on device 0") == 0);
    CHECK(taken == cudaSuccess);
    CHECK(elsewhere == cudaErrorInvalidResourceHandle);
    CHECK(cudaEventRecord(event, stream) == cudaSuccess);
  }
  CHECK(cudaSetDevice(0) == cudaSuccess);
  unsetenv("SIMT_DEVICES");
}
