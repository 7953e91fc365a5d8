// The text of a comparison. tests/apps/cli_memory.cpp runs the command.

#include "report/memory_comparison.h"

#include "tests/support/catch.h"

namespace accrue::test {
namespace {

MemoryRow row(const Way& way, int64_t micro_batch, size_t activations, double us) {
  MemoryRow row{1, {micro_batch, 64}, way};
  row.peak[Category::parameters] = 1000;
  row.peak[Category::activations] = activations;
  row.peak[Category::data] = 100'000;  // does not count
  row.rss_growth_bytes = row.total_bytes() + 5000;
  row.us_per_sample = {us};
  return row;
}

}  // namespace

TEST_CASE("the verdict says what pays", "[report]") {
  MemoryRows rows{row(at_once(), 64, 9000, 10), row(*find_way("fused"), 8, 1000, 12),
                  row(*find_way("fused"), 4, 8500, 30), row(*find_way("separate"), 8, 9024, 9),
                  row(*find_way("pytorch"), 8, 0, 20)};
  rows[4].rss_growth_bytes = rows[0].rss_growth_bytes / 2;
  REQUIRE(verdict(rows[0], rows) == "the baseline");
  REQUIRE(verdict(rows[1], rows) == "5.00x less memory for 1.20x the time");
  REQUIRE(verdict(rows[2], rows) == "does not pay: 1.05x less memory for 3.00x the time");
  REQUIRE(verdict(rows[3], rows) == "does not pay: 24 B more memory, 0.90x the time");
  // This row knows only the memory of its process, so that is compared.
  REQUIRE(verdict(rows[4], rows) == "2.00x less memory for 2.00x the time");
  rows.push_back(row(*find_way("step-in-backward"), 64, 500, 10));
  REQUIRE(verdict(rows[1], rows) ==
          "5.00x less memory for 1.20x the time; step-in-backward at once needs 500 B less");
}

}  // namespace accrue::test
