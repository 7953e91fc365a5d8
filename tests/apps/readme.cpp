// The README's C++ example is examples/train_digits.cpp, which scripts/check_install.sh runs. Lines
// that documents quote from the sources exist there.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "core/inside.h"
#include "tests/support/catch.h"
#include "tests/support/paths.h"

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

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::string trimmed(const std::string& line) {
  const size_t from = line.find_first_not_of(' ');
  return from == std::string::npos ? "" : line.substr(from, line.find_last_not_of(' ') + 1 - from);
}

// Checks the lines of an indented block. A line that begins with its number, as a debugger prints
// it, must be that line of the source. Other lines must occur in the source, except in a debugger's
// transcript, where they are left out. Returns the number of lines compared.
int check_quotation(const std::vector<std::string>& block, const std::string& source) {
  std::vector<std::string> lines;
  for (const std::string& line : lines_of(read(source))) lines.push_back(trimmed(line));
  const bool transcript = block.front().starts_with("(gdb)");
  int compared = 0;
  for (const std::string& line : block) {
    CAPTURE(source, line);
    const size_t digits = line.find_first_not_of("0123456789");
    if (digits > 0 && digits != std::string::npos && line[digits] == ' ') {
      const size_t number = std::stoul(line);
      REQUIRE(number <= lines.size());
      REQUIRE(lines[number - 1] == trimmed(line.substr(digits)));
    } else if (!transcript) {
      REQUIRE(std::ranges::count(lines, line) > 0);
    } else {
      continue;
    }
    ++compared;
  }
  return compared;
}

}  // namespace

TEST_CASE("quotations in documents are in the sources", "[readme]") {
  const std::string mark = "<!-- quoted from ";
  int quotations = 0;
  std::vector<std::filesystem::path> documents;
  for (const std::string folder : {"/docs", "/accumulate"})
    for (const auto& file : std::filesystem::recursive_directory_iterator(source_folder + folder))
      if (file.path().extension() == ".md") documents.push_back(file.path());
  for (const std::filesystem::path& document : documents) {
    const auto text = lines_of(read(std::filesystem::relative(document, source_folder).string()));
    for (size_t i = 0; i < text.size(); ++i) {
      if (!text[i].starts_with(mark)) continue;
      const std::string source = text[i].substr(mark.size(), text[i].find(" -->") - mark.size());
      std::vector<std::string> block;
      for (i += 2; i < text.size() && text[i].starts_with("    "); ++i)
        block.push_back(trimmed(text[i]));
      INFO(document);
      REQUIRE_FALSE(block.empty());
      REQUIRE(check_quotation(block, source) > 0);
      ++quotations;
    }
  }
  REQUIRE(quotations >= 3);
}

TEST_CASE("the README's example is the one that runs", "[readme]") {
  const std::string program = read("examples/train_digits.cpp");
  REQUIRE(between(read("README.md"), "```cpp\n", "```") ==
          program.substr(program.find("#include")));
}

}  // namespace accrue::test
