#pragma once

// Catch2 v3 (newer systems) and v2 (Debian 12) under one name.
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;
using TestListener = Catch::EventListenerBase;
#else
#include <catch2/catch.hpp>
inline auto ContainsSubstring(const std::string& part) { return Catch::Contains(part); }
using Catch::StartsWith;
#ifdef CATCH_CONFIG_EXTERNAL_INTERFACES
using TestListener = Catch::TestEventListenerBase;
#endif
#endif

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <thread>

namespace accrue::test {

// What every macro of Catch says of its place. Its assertions, messages and sections are for one
// thread at a time, and some versions of Catch notice nothing, so elsewhere than in the thread that
// runs the tests, which also registers them, this ends the program.
inline Catch::SourceLineInfo line_info(const char* file, std::size_t line) {
  static const std::thread::id tests = std::this_thread::get_id();
  if (std::this_thread::get_id() == tests) return {file, line};
  std::fprintf(stderr,
               "%s:%zu: an assertion, message or section of Catch in a thread of its own: keep "
               "what the thread finds, and judge it after the join (tests/README.md)\n",
               file, line);
  std::abort();
}

}  // namespace accrue::test

#ifndef CATCH_INTERNAL_LINEINFO
#error "this Catch2 calls the place of a macro otherwise"
#endif
#undef CATCH_INTERNAL_LINEINFO
#define CATCH_INTERNAL_LINEINFO \
  ::accrue::test::line_info(__FILE__, static_cast<std::size_t>(__LINE__))

// The expression throws an exception whose message contains `part`.
#define REQUIRE_ERROR(expression, part) REQUIRE_THROWS_WITH(expression, ContainsSubstring(part))
