// The glyphs that fonts draw, and their places.

#include "fonts/face.h"

#include <cstdlib>

#include "tests/support/cli.h"
#include "tests/support/tiny_font.h"

namespace accrue::test {
namespace {

using fonts::Face;
using fonts::GlyphLayout;

bool near(int a, int b) {
  return std::abs(a - b) <= 8;
}  // 1/64 of a pixel on two sides is 8 of 255

}  // namespace

TEST_CASE("glyphs stand where their layout has them", "[font]") {
  const Folder folder;
  TinyFont tiny;
  tiny.glyphs[U'永'] = {100, 0, 500, 200};
  tiny.glyphs[U'\x20000'] = {600, -200, 650, 600};
  tiny.glyphs[U' '] = {0, 0, 0, 0};
  const Face face(folder.TemporaryDirectory::write("tiny.ttf", tiny.file()).string());
  REQUIRE(face.about() == GlyphFont{"Tiny Regular", "tiny.ttf", 0, "Free for all"});

  // 400 x 200 units on the 14 pixels inside a margin of 1: the height is from 4.5 to 11.5.
  const GrayImage wide = face.draw(U'永', 16, GlyphLayout::bbox).value();
  REQUIRE((wide.height == 16 && wide.width == 16));
  for (int64_t y = 0; y < 16; ++y)
    for (int64_t x = 0; x < 16; ++x) {
      const int ink = x < 1 || x > 14 || y < 4 || y > 11 ? 0 : y == 4 || y == 11 ? 128 : 255;
      REQUIRE(near(wide.at(y, x), 255 - ink));
    }
  // 50 x 800 units on 224 of 256 pixels: 14 pixels wide, in the middle.
  const GrayImage tall = face.draw(U'\x20000', 256, GlyphLayout::bbox).value();
  for (const auto& [y, x, gray] : {std::array{15, 128, 255},
                                   {16, 128, 0},
                                   {239, 128, 0},
                                   {240, 128, 255},
                                   {128, 120, 255},
                                   {128, 121, 0},
                                   {128, 134, 0},
                                   {128, 135, 255}})
    REQUIRE(near(tall.at(y, x), gray));
  // An em of 150 pixels from (20, 20) on, with the baseline 0.8 em below: x is from 35 to 95, y
  // from 110 to 140.
  const GrayImage placed = face.draw(U'永', 256, GlyphLayout::zi2zi).value();
  for (const auto& [y, x, gray] : {std::array{109, 60, 255},
                                   {110, 60, 0},
                                   {139, 60, 0},
                                   {140, 60, 255},
                                   {120, 34, 255},
                                   {120, 35, 0},
                                   {120, 94, 0},
                                   {120, 95, 255}})
    REQUIRE(near(placed.at(y, x), gray));
  // At half the size, x is from 17.5 to 47.5.
  const GrayImage half = face.draw(U'永', 128, GlyphLayout::zi2zi).value();
  REQUIRE(near(half.at(60, 17), 127));
  REQUIRE(near(half.at(60, 47), 127));

  REQUIRE_FALSE(face.draw(U' ', 16, GlyphLayout::bbox));
  REQUIRE_FALSE(face.draw(U'a', 16, GlyphLayout::bbox));
}

TEST_CASE("one of several faces is chosen, and has its license", "[font]") {
  const Folder folder;
  TinyFont one = letters("One", 100), two = letters("Two", 200);
  one.licence = "a\n  licence\t\xff";  // U+FF in UTF-16, but one byte here
  two.licence = "";
  two.copyright = "Somebody";
  const std::string file =
      folder.TemporaryDirectory::write("both.ttc", collection_of({one, two})).string();
  REQUIRE_ERROR(Face(file), file + "' holds 2 faces, expected one of them by '" + file +
                                "#N': #0 One Regular, #1 Two Regular");
  REQUIRE(Face(file + "#1").about() == GlyphFont{"Two Regular", "both.ttc", 1, "Somebody"});
  REQUIRE(Face(file + "#0").about().licence == "a licence \xc3\xbf");
  REQUIRE_ERROR(Face(file + "#2"), "has no face 2: it has 0 to 1");
  REQUIRE_ERROR(Face(file + "#two"), "expected the number of a face behind '#'");
  const std::string odd = folder.TemporaryDirectory::write("odd#1", one.file())
                              .string();  // a file name, not the number of a face
  REQUIRE(Face(odd).about().face == 0);
}

TEST_CASE("what is no font or damaged is refused by its name", "[font]") {
  const Folder folder;
  REQUIRE_ERROR(Face(folder / "none.ttf"), "none.ttf': No such file");
  REQUIRE_ERROR(Face(folder.path().string()), "it is a directory");
  REQUIRE_ERROR(Face(folder.TemporaryDirectory::write("text.ttf", "no font at all").string()),
                "text.ttf' is no font");
  REQUIRE_ERROR(Face(folder.TemporaryDirectory::write("empty.ttf", "").string()),
                "the file is empty");
  // A file that is cut off or changed anywhere is refused, or drawn as far as possible.
  const std::string whole = letters("Whole", 300).file();
  int64_t refused = 0, tried = 0;
  const auto try_file = [&](const std::string& content) {
    const std::string file = folder.TemporaryDirectory::write("damaged.ttf", content).string();
    ++tried;
    try {
      const Face face(file);
      for (char32_t code = U'A'; code <= U'Z'; ++code) face.draw(code, 16, GlyphLayout::bbox);
    } catch (const Error& error) {
      ++refused;
      REQUIRE_THAT(error.what(), ContainsSubstring("damaged.ttf"));
    }
  };
  for (size_t length = 1; length < whole.size(); length += 7) try_file(whole.substr(0, length));
  REQUIRE(refused > tried / 2);
  for (size_t at = 0; at < whole.size(); at += 3)
    for (const char value : {'\0', '\x7f', '\xff'}) {
      std::string damaged = whole;
      damaged[at] = value;
      try_file(damaged);
    }
}

}  // namespace accrue::test
