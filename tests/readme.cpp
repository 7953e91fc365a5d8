// The README's example of C++ is examples/train_digits.cpp, which scripts/check_install.sh runs.

#include <fstream>
#include <sstream>

#include "tests/catch.h"
#include "tests/paths.h"

namespace accrue::test {
namespace {

std::string read(const std::string& path) {
  std::ifstream file(source_folder + "/" + path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string between(const std::string& text, const std::string& begin, const std::string& end) {
  const size_t from = text.find(begin) + begin.size();
  return text.substr(from, text.find(end, from) - from);
}

}  // namespace

TEST_CASE("the README's example is the one that runs", "[readme]") {
  const std::string program = read("examples/train_digits.cpp");
  REQUIRE(between(read("README.md"), "```cpp\n", "```") ==
          program.substr(program.find("#include")));
}

}  // namespace accrue::test
