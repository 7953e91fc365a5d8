#pragma once

#include <cstddef>

// Functions of the sanitizers' runtimes; null if the program is linked without them. The tests are
// the same object files with and without a sanitizer.
extern "C" {
[[gnu::weak]] void __asan_init();
[[gnu::weak]] void __tsan_init();
[[gnu::weak]] int __asan_address_is_poisoned(const volatile void* address);
[[gnu::weak]] void* __asan_region_is_poisoned(void* begin, size_t bytes);
}
