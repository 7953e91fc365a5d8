#pragma once

#include <cstddef>

// Calls AddressSanitizer where it is compiled in, and does nothing elsewhere.
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>

// Compiled code reads this variable before it takes its locals from the heap.
extern "C" int __asan_option_detect_stack_use_after_return;

namespace simt {
inline constexpr bool sanitized = true;
inline bool locals_on_heap() { return __asan_option_detect_stack_use_after_return != 0; }
inline void start_switch(void** fake_stack, const void* stack, size_t bytes) {
  __sanitizer_start_switch_fiber(fake_stack, stack, bytes);
}
inline void finish_switch(void* fake_stack, const void** old_stack, size_t* old_bytes) {
  __sanitizer_finish_switch_fiber(fake_stack, old_stack, old_bytes);
}
inline void forbid(const void* memory, size_t bytes) { __asan_poison_memory_region(memory, bytes); }
inline void allow(const void* memory, size_t bytes) {
  __asan_unpoison_memory_region(memory, bytes);
}
}  // namespace simt

#else

namespace simt {
inline constexpr bool sanitized = false;
inline bool locals_on_heap() { return false; }
inline void start_switch(void**, const void*, size_t) {}
inline void finish_switch(void*, const void**, size_t*) {}
inline void forbid(const void*, size_t) {}
inline void allow(const void*, size_t) {}
}  // namespace simt

#endif
