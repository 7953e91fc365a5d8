#pragma once

#include <cstddef>

#include "cuda_runtime.h"

// Copies from global to shared memory that a thread begins and later waits for. They happen at the
// last moment that CUDA allows, when the thread waits for them; until then the target is NaN.

namespace simt {

// Writes zeros to the last `zeros` bytes of the target, without reading their source.
void begin_copy(void* to, const void* from, size_t bytes, size_t zeros, Place place);
void commit_copies();
// Waits until all committed groups but the last `groups` have happened.
void wait_for_copies(size_t groups);

}  // namespace simt

inline void __pipeline_memcpy_async(void* to, const void* from, size_t bytes, size_t zeros = 0,
                                    simt::Place place = simt::Place::current()) {
  simt::begin_copy(to, from, bytes, zeros, place);
}
inline void __pipeline_commit() { simt::commit_copies(); }
inline void __pipeline_wait_prior(size_t groups) { simt::wait_for_copies(groups); }
