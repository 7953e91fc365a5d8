#pragma once

#include <cstddef>

// What the sanitizers' runtimes offer, null where the program is linked without them: the tests
// themselves are the same objects with them and without.
extern "C" {
[[gnu::weak]] void __asan_init();
[[gnu::weak]] void __tsan_init();
[[gnu::weak]] int __asan_address_is_poisoned(const volatile void* address);
[[gnu::weak]] void* __asan_region_is_poisoned(void* begin, size_t bytes);
}
