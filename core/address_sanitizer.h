#pragma once

#include <cstddef>

// These tell AddressSanitizer to refuse or allow accesses to memory that the program keeps but does
// not use. They do nothing in builds without it.
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>

namespace accrue {
inline void forbid_access(const void* memory, size_t bytes) {
  __asan_poison_memory_region(memory, bytes);
}
inline void allow_access(const void* memory, size_t bytes) {
  __asan_unpoison_memory_region(memory, bytes);
}
}  // namespace accrue

#else

namespace accrue {
inline void forbid_access(const void*, size_t) {}
inline void allow_access(const void*, size_t) {}
}  // namespace accrue

#endif
