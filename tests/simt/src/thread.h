#pragma once

#include <string>
#include <vector>

#include "cuda_runtime.h"

namespace simt {

class Fiber;

// A copy from global to shared memory. The last `zeros` bytes of the target become zero, without
// reading their source.
struct Copy {
  void* to;
  const void* from;
  size_t bytes, zeros;
};

inline constexpr unsigned warp_lanes = 32;

// One CUDA thread of the block that runs now.
struct Thread {
  enum class State { not_started, runs, at_barrier, in_warp, exited };

  unsigned linear = 0;
  uint3 index{};
  State state = State::not_started;
  Fiber* fiber = nullptr;

  // While the thread waits: where it waits, and for which barrier or warp operation.
  Place place;
  Barrier barrier{};
  WarpOp op{};
  unsigned mask = 0, source = 0;
  uint64_t value = 0;  // given to the meeting, then received from it

  // The copies that it has begun and not waited for: the groups that it has committed, and the
  // group that it has not committed yet.
  std::vector<std::vector<Copy>> copies;

  unsigned lane() const { return linear % warp_lanes; }
  unsigned warp() const { return linear / warp_lanes; }
};

// "__shfl_sync with mask 0xffffffff at reduce.cu:31 in float block_sum(float)"
std::string describe_wait(const Thread& thread);

// How many threads wait where, and how many have exited: a line for each.
std::string describe_block(const std::vector<Thread>& threads);

// "accumulate(float*, const float*)"
std::string kernel_name(const void* kernel);

// "kernel accumulate(float*, const float*), block (1, 0, 0) of (4, 1, 1), 256 threads"
std::string describe_kernel(const void* kernel, const dim3& grid, const dim3& block, uint3 index);

}  // namespace simt
