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

// The place of a Catch macro in the sources; every macro asks for it. Catch's assertions, messages
// and sections work on one thread at a time, and some versions do not detect misuse. So this
// function ends the program on any thread but the one that registers and runs the tests.
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

// Requires that the expression throws an exception whose message contains `part`.
#define REQUIRE_ERROR(expression, part) REQUIRE_THROWS_WITH(expression, ContainsSubstring(part))
