#include "tests/support/device.h"

#include <limits>

#include "core/cuda.h"
#include "tests/support/sanitizers.h"

// The runner's controls, if the CUDA sources are built for the runner.
#if __has_include(<simt.h>)
#include <simt.h>
#endif

namespace accrue::test {
namespace {

Device under_test = Device::cpu;
bool full = false;

}  // namespace

Device test_device() { return under_test; }
void set_test_device(Device device) { under_test = device; }

MetaScope::MetaScope(bool is_meta) {
  if (is_meta) set_test_device(meta_of(before_));
}

bool sanitized() { return __asan_init != nullptr; }
bool reduced() { return (on_runner() || sanitized()) && !full; }
void set_full() { full = true; }

Tensor on_host(const Tensor& x) { return x.device() == Device::cpu ? x : x.to(Device::cpu); }

std::vector<double> to_doubles(const Tensor& x) {
  const Tensor host = on_host(x);
  return dispatch_floating(host.dtype(), [&]<class T>() {
    const auto span = host.span<T>();
    return std::vector<double>(span.begin(), span.end());
  });
}

#if __has_include(<simt.h>)
bool on_runner() { return under_test == Device::cuda; }
void set_thread_order(int order) { simt::set_seed(static_cast<uint64_t>(order) + 1); }
TensorLimit::TensorLimit(size_t elements) { simt::set_largest_tensor(elements); }
TensorLimit::~TensorLimit() { simt::set_largest_tensor((size_t{1} << 31) - 1); }
PageableAccess::PageableAccess() {
  simt::set_pageable_access(true);
  simt::set_pageable_copies(simt::PageableCopies::deferred);
}
PageableAccess::~PageableAccess() {
  simt::set_pageable_access(false);
  simt::set_pageable_copies(simt::PageableCopies::either);
}
RefusedRecordings::RefusedRecordings(size_t works, By by) {
  simt::refuse_captures_from(works, by == By::call ? simt::RefusedBy::call : simt::RefusedBy::end);
}
RefusedRecordings::~RefusedRecordings() {
  simt::refuse_captures_from(std::numeric_limits<size_t>::max(), simt::RefusedBy::call);
}
LaunchKinds launches_by_kind(const std::function<void()>& work) {
  simt::reset_launches();
  work();
  const simt::Launches all = simt::launches();
  return {all.kernels, all.library_calls, all.graphs};
}
int64_t slow_products_of(const std::function<void()>& work) {
  simt::reset_launches();
  work();
  return simt::launches().slow_products;
}
void let_driver_give_more(bool more) {
  simt::set_device_memory(more ? size_t{1} << 30 : simt::live_device_bytes());
}
#else
bool on_runner() { return false; }
void set_thread_order(int) {}
RefusedRecordings::RefusedRecordings(size_t, By) {}
RefusedRecordings::~RefusedRecordings() = default;
TensorLimit::TensorLimit(size_t) {}
TensorLimit::~TensorLimit() = default;
PageableAccess::PageableAccess() = default;
PageableAccess::~PageableAccess() = default;
LaunchKinds launches_by_kind(const std::function<void()>& work) {
  work();
  return {};
}
int64_t slow_products_of(const std::function<void()>& work) {
  work();
  return 0;
}
void let_driver_give_more(bool) {}  // on a GPU its memory is taken instead
#endif

int64_t launches_of(const std::function<void()>& work) {
  const LaunchKinds all = launches_by_kind(work);
  return all.kernels + all.library_calls + all.graphs;
}

FullDevice::FullDevice() {
  let_driver_give_more(false);
  for (size_t bytes = size_t{1} << 30; bytes > 0; bytes /= 2)
    while (void* block = cuda::allocate(bytes)) blocks_.push_back(block);
}

FullDevice::~FullDevice() {
  for (void* block : blocks_) cuda::deallocate(block);
  let_driver_give_more(true);
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  check(a.size() == b.size(), "{} values compared with {}", a.size(), b.size());
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(a[i] - b[i]);
    if (!std::isfinite(difference)) return std::nan("");
    largest = std::max(largest, difference);
  }
  return largest;
}

int thread_orders() {
  if (on_runner()) return 3;
  return under_test == Device::cuda ? 2 : 1;
}

}  // namespace accrue::test
