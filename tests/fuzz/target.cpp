// A libFuzzer target for the parser that FUZZ_PARSER names; scripts/fuzz.sh builds and runs them.

#include <algorithm>
#include <cstdint>

#include "core/error.h"
#include "tests/fuzz/parsers.h"

namespace {

const accrue::fuzz::Parser& parser() {
  static const accrue::fuzz::Parser& found =
      *std::find_if(accrue::fuzz::parsers().begin(), accrue::fuzz::parsers().end(),
                    [](const auto& candidate) { return candidate.name == FUZZ_PARSER; });
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
  // Behind checksums, which no mutation gets right.
  if (parser().name == "checkpoint") parse(accrue::fuzz::with_right_checksum(file));
  if (parser().name == "png" || parser().name == "masks")
    parse(accrue::fuzz::with_right_crcs(file));
  if (parser().name == "idx") parse(accrue::fuzz::gzip(file));
  return 0;
}
