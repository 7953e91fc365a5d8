#include "fonts/characters.h"

#include "tests/support/cli.h"

namespace accrue::test {

namespace {

using fonts::characters_of;

}  // namespace

TEST_CASE("characters come from a standard, a file or a text", "[font]") {
  const std::u32string standard = characters_of("gb2312");
  REQUIRE(standard.size() == 6763);
  REQUIRE(standard.front() == U'啊');
  REQUIRE(standard.back() == U'齄');
  REQUIRE(characters_of("永 字\t八法永\xe3\x80\x80") == U"永字八法");
  const Folder folder;
  REQUIRE(characters_of(folder
                            .TemporaryDirectory::write("list.txt",
                                                       "\xef\xbb\xbf"
                                                       "b\r\na b")
                            .string()) == U"ba");
  REQUIRE_ERROR(characters_of("missing.txt"), "cannot open 'missing.txt'");
  REQUIRE_ERROR(characters_of("a/b"), "cannot open 'a/b'");
  REQUIRE_ERROR(characters_of("a\xff"), "not UTF-8: byte 1 is ff");
  REQUIRE_ERROR(characters_of(" "), "there are no characters");
}

}  // namespace accrue::test
