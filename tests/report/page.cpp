// The contents of the pages. scripts/check_report.py opens them in a browser.

#include "report/page.h"

#include <nlohmann/json.hpp>

#include "tests/support/catch.h"

namespace accrue::test {
namespace {

using Json = nlohmann::json;

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

}  // namespace

TEST_CASE("nothing in the data ends the script that holds it", "[report]") {
  const std::string plain = memory_page({{"rows", Json::array()}, {"device", "cpu"}});
  const std::string page =
      memory_page({{"rows", Json::array()}, {"device", "cpu"}, {"data", "</script><!--<script>"}});
  for (const char* part : {"<script", "</script", "<!--"})
    REQUIRE(count_of(page, part) == count_of(plain, part));
  REQUIRE(count_of(page, "\\u003c/script>") == 1);
  REQUIRE(count_of(page, "{{") == 0);
}

}  // namespace accrue::test
