#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include "core/error.h"
#include "fonts/outline.h"
#include "tests/support/files.h"
#include "tests/support/skipped.h"

// Skips a test unless the machine has the program potrace.
#define NEEDS_POTRACE            \
  try {                          \
    fonts::require_potrace();    \
  } catch (const Error& error) { \
    SKIP_LOUDLY(error.what());   \
  }                              \
  static_assert(true)

namespace accrue::test {

// While alive, the search for programs begins in a folder, or takes place in that folder alone.
class SearchedFirst {
 public:
  SearchedFirst(const std::filesystem::path& folder, bool alone = false)
      : before_(std::getenv("PATH")) {
    set(alone ? folder.string() : folder.string() + ":" + before_);
  }
  ~SearchedFirst() { set(before_); }
  SearchedFirst(const SearchedFirst&) = delete;
  SearchedFirst& operator=(const SearchedFirst&) = delete;

 private:
  static void set(const std::string& path) { ::setenv("PATH", path.c_str(), 1); }
  std::string before_;
};

}  // namespace accrue::test
