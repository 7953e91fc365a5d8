#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/inside.h"
#include "core/tensor.h"

namespace accrue::test {

// The device under test: accrue_tests --device cpu|cuda.
Device test_device();
void set_test_device(Device device);

// While alive, the device under test is its meta device, if asked for. A test of an op's refusals
// begins with `const MetaScope on(GENERATE(false, true))`: a meta device must refuse whatever its
// device refuses, or a prediction could promise that a run fits that then fails.
class MetaScope {
 public:
  explicit MetaScope(bool is_meta);
  ~MetaScope() { set_test_device(before_); }
  MetaScope(const MetaScope&) = delete;
  MetaScope& operator=(const MetaScope&) = delete;

 private:
  const Device before_ = test_device();
};

// True if the test device is the runner: CUDA kernels on the host, hundreds of times slower than a
// GPU.
bool on_runner();

// True if the program runs under AddressSanitizer, which is ten times slower.
bool sanitized();

// True if a test should run one combination of each kind instead of all: on the runner and under
// sanitizers, unless accrue_tests --full asks for all.
bool reduced();
void set_full();

// The kernels and library calls that `work` gives to the runner (tests/simt/include/simt.h).
int64_t launches_of(const std::function<void()>& work);
// The same by kind. Graphs count once, whatever they hold.
struct LaunchKinds {
  int64_t kernels = 0, library_calls = 0, graphs = 0;
};
LaunchKinds launches_by_kind(const std::function<void()>& work);
// The matrix products among them that the runner's cuBLASLt would not compute by its fastest
// kernels with tensor cores.
int64_t slow_products_of(const std::function<void()>& work);

// x itself if it is on the cpu, else a copy on the cpu.
Tensor on_host(const Tensor& x);
// The elements of a floating tensor on any device but a meta device. The conversion is exact.
std::vector<double> to_doubles(const Tensor& x);
// The largest |a[i] - b[i]|. If a difference is not finite, it returns NaN, for which every
// comparison is false.
double largest_difference(const std::vector<double>& a, const std::vector<double>& b);

// While alive, cuda has no memory left: the program's cache has handed out all its memory for the
// pool in use, and the driver gives no more.
class FullDevice {
 public:
  FullDevice();
  ~FullDevice();
  FullDevice(const FullDevice&) = delete;
  FullDevice& operator=(const FullDevice&) = delete;

 private:
  std::vector<void*> blocks_;
};

// How often a test repeats a kernel to find races, with set_thread_order(0), (1), ... in turn. The
// runner takes several orders of the threads; a GPU repeats the kernel in whatever order happens.
// The cpu runs it once, because no two of its threads write to the same place.
int thread_orders();
void set_thread_order(int order);

// While alive, cuDNN's tensors have at most `elements` elements; on the runner only.
class TensorLimit {
 public:
  explicit TensorLimit(size_t elements);
  ~TensorLimit();
  TensorLimit(const TensorLimit&) = delete;
  TensorLimit& operator=(const TensorLimit&) = delete;
};

// While alive, the device copies from pageable memory when the stream comes to it; on the runner
// only.
class PageableAccess {
 public:
  PageableAccess();
  ~PageableAccess();
  PageableAccess(const PageableAccess&) = delete;
  PageableAccess& operator=(const PageableAccess&) = delete;
};

// While alive, CUDA refuses to record more than `works` kernels and copies: the call that enqueues
// one more fails, or the end of the recording does. On the runner only.
class RefusedRecordings {
 public:
  enum class By { call, end };
  RefusedRecordings(size_t works, By by);
  ~RefusedRecordings();
  RefusedRecordings(const RefusedRecordings&) = delete;
  RefusedRecordings& operator=(const RefusedRecordings&) = delete;
};

}  // namespace accrue::test
