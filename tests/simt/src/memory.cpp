#include <fmt/format.h>

#include <cstdlib>
#include <cstring>

#include "device.h"
#include "sanitizer.h"

namespace simt {
namespace {

uintptr_t address(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }

using Blocks = std::map<uintptr_t, size_t>;

// The last block that begins before the end of the bytes: the only one that can hold or cut them.
Blocks::const_iterator candidate(const Blocks& blocks, const void* pointer, size_t bytes) {
  auto it = blocks.lower_bound(address(pointer) + std::max<size_t>(bytes, 1));
  return it == blocks.begin() ? blocks.end() : --it;
}

bool inside(const Blocks& blocks, const void* pointer, size_t bytes) {
  const auto it = candidate(blocks, pointer, bytes);
  return it != blocks.end() && it->first <= address(pointer) &&
         address(pointer) + bytes <= it->first + it->second;
}

bool overlaps(const Blocks& blocks, const void* pointer, size_t bytes) {
  const auto it = candidate(blocks, pointer, bytes);
  return it != blocks.end() && address(pointer) < it->first + it->second;
}

cudaMemcpyKind infer(const void* dst, const void* src) {
  const bool from = touches_device(src, 1), to = touches_device(dst, 1);
  return from ? (to ? cudaMemcpyDeviceToDevice : cudaMemcpyDeviceToHost)
              : (to ? cudaMemcpyHostToDevice : cudaMemcpyHostToHost);
}

bool valid(const void* pointer, size_t bytes, bool on_device) {
  return pointer != nullptr &&
         (on_device ? device_block(pointer, bytes) : !touches_device(pointer, bytes));
}

// Blocks of at least this size are kept when they are freed, because the heap would map and unmap
// them each time. A block is used again only after several others have been freed: until then
// AddressSanitizer reports any use of it.
constexpr size_t least_kept = 256 << 10, most_kept = 64 << 20, resting_blocks = 4;

void* take_idle(size_t bytes) {
  auto& idle = device().idle;
  for (size_t i = 0; i + resting_blocks < idle.size(); ++i) {
    if (idle[i].second != bytes) continue;
    void* const pointer = idle[i].first;
    idle.erase(idle.begin() + std::ptrdiff_t(i));
    allow(pointer, bytes);
    return pointer;
  }
  return nullptr;
}

void release(void* pointer, size_t bytes) {
  allow(pointer, bytes);
  std::free(pointer);
}

// Takes back a block whose memory is already forbidden.
void give_back(void* pointer, size_t bytes) {
  if (bytes < least_kept) return release(pointer, bytes);
  auto& idle = device().idle;
  idle.emplace_back(pointer, bytes);
  size_t kept = 0;
  for (const auto& block : idle) kept += block.second;
  for (; kept > most_kept; idle.pop_front()) {
    release(idle.front().first, idle.front().second);
    kept -= idle.front().second;
  }
}

// Every block is its own heap block of exactly the size asked for: a sanitizer sees an access one
// byte beyond it. It is filled with NaN, which reveals reads before the first write.
cudaError_t allocate(Blocks& blocks, void** pointer, size_t bytes) {
  *pointer = nullptr;
  if (bytes == 0) return cudaSuccess;
  *pointer = take_idle(bytes);
  if (*pointer == nullptr && posix_memalign(pointer, 256, bytes) != 0)
    return cudaErrorMemoryAllocation;
  std::memset(*pointer, 0xff, bytes);
  blocks.emplace(address(*pointer), bytes);
  return cudaSuccess;
}

// The work of a copy. Pageable memory is read now, because CUDA stages it, unless the device reads
// it itself.
Work copy_work(void* dst, const void* src, size_t bytes, cudaMemcpyKind kind) {
  const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  if (!from_device && !device().pageable_access && !inside(device().pinned, src, bytes)) {
    const auto* first = static_cast<const std::byte*>(src);
    return [dst, to_device, staged = std::vector<std::byte>(first, first + bytes)] {
      if (to_device) require_device(dst, staged.size(), "a copy's destination");
      std::memcpy(dst, staged.data(), staged.size());
    };
  }
  return [=] {
    if (from_device) require_device(src, bytes, "a copy's source");
    if (to_device) require_device(dst, bytes, "a copy's destination");
    std::memmove(dst, src, bytes);
  };
}

bool copy_waits() {
  switch (device().pageable_copies) {
    case PageableCopies::deferred: return false;
    case PageableCopies::waiting: return true;
    case PageableCopies::either: return device().random.below(2) == 0;
  }
  return true;
}

cudaError_t copy(void* dst, const void* src, size_t bytes, cudaMemcpyKind kind,
                 cudaStream_t stream) {
  if (kind == cudaMemcpyDefault) kind = infer(dst, src);
  if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault) {
    return cudaErrorInvalidMemcpyDirection;
  }
  CUstream_st* target = find_stream(stream);
  if (target == nullptr) return cudaErrorInvalidResourceHandle;
  if (bytes == 0) return cudaSuccess;
  const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  if (!valid(src, bytes, from_device) || !valid(dst, bytes, to_device))
    return cudaErrorInvalidValue;
  const bool pageable = (!from_device && !inside(device().pinned, src, bytes)) ||
                        (!to_device && !inside(device().pinned, dst, bytes));
  if (!pageable) return submit(stream, copy_work(dst, src, bytes, kind));
  // CUDA: "If pageable memory must first be staged to pinned memory, the driver may synchronize
  // with the stream and stage the copy"; to the host, "the function might be synchronous". It may
  // not synchronize with a stream that captures.
  if (const cudaError_t error = refuse_in_capture(*target)) return error;
  const bool waits = copy_waits();
  if (waits && to_device) {
    if (const cudaError_t error = finish_stream(*target)) return error;
  }
  if (const cudaError_t error = submit(stream, copy_work(dst, src, bytes, kind))) return error;
  return waits && !to_device ? finish_stream(*target) : cudaSuccess;
}

cudaError_t set(void* pointer, int value, size_t bytes, cudaStream_t stream) {
  if (find_stream(stream) == nullptr) return cudaErrorInvalidResourceHandle;
  if (bytes == 0) return cudaSuccess;
  if (!device_block(pointer, bytes)) return cudaErrorInvalidValue;
  return submit(stream, [=] {
    require_device(pointer, bytes, "a memset's target");
    std::memset(pointer, value, bytes);
  });
}

}  // namespace

bool device_block(const void* pointer, size_t bytes) {
  return inside(device().memory, pointer, bytes);
}

bool touches_device(const void* pointer, size_t bytes) {
  return overlaps(device().memory, pointer, bytes);
}

void require_device(const void* pointer, size_t bytes, const char* what) {
  if (device_block(pointer, bytes)) return;
  throw Failure(cudaErrorIllegalAddress,
                fmt::format("{} must lie in one block of device memory, but {} bytes at {} do not",
                            what, bytes, pointer));
}

DeviceAccess::DeviceAccess() {
  for (const auto& [begin, bytes] : device().memory) allow(reinterpret_cast<void*>(begin), bytes);
}

DeviceAccess::~DeviceAccess() {
  for (const auto& [begin, bytes] : device().memory) forbid(reinterpret_cast<void*>(begin), bytes);
}

}  // namespace simt

using namespace simt;

cudaError_t cudaMalloc(void** pointer, size_t size) {
  return call([&] {
    Device& d = device();
    if (pointer == nullptr) return cudaErrorInvalidValue;
    if (const cudaError_t error = refuse_unsafe_in_capture()) return error;
    if (size > d.memory_total - std::min(d.memory_total, d.memory_live)) {
      return cudaErrorMemoryAllocation;
    }
    if (const cudaError_t error = allocate(d.memory, pointer, size)) return error;
    forbid(*pointer, size);
    d.memory_live += size;
    return cudaSuccess;
  });
}

// Waits for all work, as CUDA does, because queued work may still use the block. So no mode of a
// capture allows it.
cudaError_t cudaFree(void* pointer) {
  return call([&] {
    Device& d = device();
    if (const cudaError_t error = refuse_while_any_captures()) return error;
    if (pointer == nullptr) return cudaSuccess;
    const auto it = d.memory.find(address(pointer));
    if (it == d.memory.end()) return cudaErrorInvalidValue;
    if (const cudaError_t error = finish_all()) return error;
    const size_t bytes = it->second;
    d.memory_live -= bytes;
    d.memory.erase(it);
    give_back(pointer, bytes);
    return cudaSuccess;
  });
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  return call([&] {
    *total = device().memory_total;
    *free = *total - std::min(*total, device().memory_live);
    return cudaSuccess;
  });
}

cudaError_t cudaHostAlloc(void** pointer, size_t size, unsigned) {
  return call([&] {
    if (pointer == nullptr) return cudaErrorInvalidValue;
    if (const cudaError_t error = refuse_unsafe_in_capture()) return error;
    return allocate(device().pinned, pointer, size);
  });
}

cudaError_t cudaMallocHost(void** pointer, size_t size) { return cudaHostAlloc(pointer, size, 0); }

cudaError_t cudaFreeHost(void* pointer) {
  return call([&] {
    if (const cudaError_t error = refuse_while_any_captures()) return error;
    if (pointer == nullptr) return cudaSuccess;
    if (device().pinned.count(address(pointer)) == 0) return cudaErrorInvalidValue;
    if (const cudaError_t error = finish_all()) return error;
    device().pinned.erase(address(pointer));
    std::free(pointer);
    return cudaSuccess;
  });
}

cudaError_t cudaMemcpyAsync(void* dst, const void* src, size_t count, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return call([&] { return copy(dst, src, count, kind, stream); });
}

// Ordered in the legacy stream. A copy within the device does not hold up the host.
cudaError_t cudaMemcpy(void* dst, const void* src, size_t count, cudaMemcpyKind kind) {
  return call([&] {
    if (const cudaError_t error = refuse_unsafe_in_capture()) return error;
    if (const cudaError_t error = copy(dst, src, count, kind, nullptr)) return error;
    const bool on_device = touches_device(dst, 1) && touches_device(src, 1);
    return on_device ? cudaSuccess : finish_stream(device().legacy);
  });
}

cudaError_t cudaMemsetAsync(void* pointer, int value, size_t count, cudaStream_t stream) {
  return call([&] { return set(pointer, value, count, stream); });
}

cudaError_t cudaMemset(void* pointer, int value, size_t count) {
  return call([&] {
    if (const cudaError_t error = refuse_unsafe_in_capture()) return error;
    return set(pointer, value, count, nullptr);
  });
}
