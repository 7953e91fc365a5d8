#include <algorithm>
#include <cstdint>
#include <span>

#include "block.h"

// The section in which GCC lists where the no-ops of __launch_bounds__ begin. The linker knows its
// ends; weak, because without any bounds there is none.
extern "C" {
extern const uintptr_t __start___patchable_function_entries[]
    __attribute__((weak, visibility("hidden")));
extern const uintptr_t __stop___patchable_function_entries[]
    __attribute__((weak, visibility("hidden")));
}

namespace simt {

unsigned launch_bounds(const void* kernel) {
  constexpr uint8_t no_op = 0x90;
  const auto entry = reinterpret_cast<uintptr_t>(kernel);
  for (const uintptr_t begin :
       std::span(__start___patchable_function_entries, __stop___patchable_function_entries)) {
    // A list entry shortly before the kernel belongs to it only if no other code lies between.
    if (begin >= entry || entry - begin > 1024) continue;
    const std::span between(reinterpret_cast<const uint8_t*>(begin), entry - begin);
    if (std::ranges::count(between, no_op) == std::ssize(between)) return between.size();
  }
  return 0;
}

}  // namespace simt
