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

// The expression throws an exception whose message contains `part`.
#define REQUIRE_ERROR(expression, part) REQUIRE_THROWS_WITH(expression, ContainsSubstring(part))
