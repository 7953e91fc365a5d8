// A libFuzzer target for the parser that the environment's FUZZ_PARSER names, run by
// scripts/fuzz.sh.

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "core/error.h"
#include "tests/fuzz/parsers.h"

namespace {

const accrue::fuzz::Parser& parser() {
  static const accrue::fuzz::Parser& found = []() -> const accrue::fuzz::Parser& {
    const char* const name = std::getenv("FUZZ_PARSER");
    for (const accrue::fuzz::Parser& each : accrue::fuzz::parsers())
      if (name && each.name == name) return each;
    accrue::fail("FUZZ_PARSER is '{}': expected the name of a parser", name ? name : "");
  }();
  return found;
}

void parse(std::span<const std::byte> file) {
  try {
    parser().parse(file);
  } catch (const accrue::Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span file(reinterpret_cast<const std::byte*>(data), size);
  parse(file);
  // No mutation gets a checksum right, so the file is also parsed with the right one.
  if (parser().name == "checkpoint") parse(accrue::fuzz::with_right_checksum(file));
  if (parser().name == "png" || parser().name == "masks")
    parse(accrue::fuzz::with_right_crcs(file));
  if (parser().name == "idx") parse(accrue::fuzz::gzip(file));
  return 0;
}
