// Fonts: what they draw where, and the directories of pairs that are made of them.

#include <cstdlib>

#include "apps/font/characters.h"
#include "apps/font/face.h"
#include "apps/font/sheet.h"
#include "data/glyphs.h"
#include "tests/support/cli.h"
#include "tests/support/tiny_font.h"

namespace accrue::test {
namespace {

using app::characters_of;
using app::Face;
using app::GlyphLayout;

// The letters of the alphabet, of which D, H, K and R are held out, in boxes that differ, and a
// space.
TinyFont letters(const std::string& name, int width) {
  TinyFont font;
  font.name = name;
  for (int i = 0; i < 26; ++i)
    font.glyphs[U'A' + static_cast<char32_t>(i)] = {100, 0, 100 + width, 300 + 10 * i};
  font.glyphs[U' '] = {0, 0, 0, 0};
  return font;
}

// Files in a folder, and the command that makes pairs of them.
struct Fonts : Folder {
  Fonts() {
    path_of("source.ttf", letters("Source", 200).file());
    path_of("brush.ttf", letters("Brush", 400).file());
  }
  std::string path_of(const std::string& name, const std::string& content) const {
    return TemporaryDirectory::write(name, content).string();
  }
  std::string command(const std::string& rest) const {
    return fmt::format("font prepare --source {} --out {} {}", *this / "source.ttf", *this / "out",
                       rest);
  }
  // Nothing but the fonts.
  bool is_clean() const {
    for (const auto& entry : fs::directory_iterator(path()))
      if (entry.path().extension() != ".ttf") return false;
    return true;
  }
};

bool near(int a, int b) { return std::abs(a - b) <= 8; }  // 1/64 pixel on two sides of 255

}  // namespace

TEST_CASE("glyphs stand where their layout has them", "[font]") {
  const Folder folder;
  TinyFont tiny;
  tiny.glyphs[U'永'] = {100, 0, 500, 200};
  tiny.glyphs[U'\x20000'] = {600, -200, 650, 600};
  tiny.glyphs[U' '] = {0, 0, 0, 0};
  const Face face(folder.TemporaryDirectory::write("tiny.ttf", tiny.file()).string());
  REQUIRE(face.about() == GlyphFont{"Tiny Regular", "tiny.ttf", 0, "Free for all"});

  // 400 x 200 units on the 14 pixels inside a margin of 1: from 4.5 to 11.5 in height.
  const GrayImage wide = face.draw(U'永', 16, GlyphLayout::bbox).value();
  REQUIRE((wide.height == 16 && wide.width == 16));
  for (int64_t y = 0; y < 16; ++y)
    for (int64_t x = 0; x < 16; ++x) {
      const int ink = x < 1 || x > 14 || y < 4 || y > 11 ? 0 : y == 4 || y == 11 ? 128 : 255;
      REQUIRE(near(wide.at(y, x), 255 - ink));
    }
  // 50 x 800 units on 224 pixels of 256: 14 wide in the middle.
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
  // An em of 150 from (20, 20), the base line 0.8 em below: x from 35 to 95, y from 110 to 140.
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
  // Half of that: from 17.5 to 47.5.
  const GrayImage half = face.draw(U'永', 128, GlyphLayout::zi2zi).value();
  REQUIRE(near(half.at(60, 17), 127));
  REQUIRE(near(half.at(60, 47), 127));

  REQUIRE_FALSE(face.draw(U' ', 16, GlyphLayout::bbox));
  REQUIRE_FALSE(face.draw(U'a', 16, GlyphLayout::bbox));
}

TEST_CASE("a face is chosen among several, and its licence told", "[font]") {
  const Folder folder;
  TinyFont one = letters("One", 100), two = letters("Two", 200);
  one.licence = "a\n  licence\t\xff";  // in UTF-16 U+FF, of one byte here
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
  const std::string odd =
      folder.TemporaryDirectory::write("odd#1", one.file()).string();  // a name, not a face
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
  // Cut off or changed anywhere, a file is refused, or drawn as far as it can be.
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

TEST_CASE("pairs are made of fonts, and what some lack is left out and named", "[font]") {
  const Fonts fonts;
  TinyFont pen = letters("Pen", 50);
  pen.glyphs.erase(U'C');
  const std::string pen_file = fonts.path_of("pen x.ttf", pen.file());
  const std::string text = succeed(
      fonts.command(fmt::format("--target {} --target '{}' --chars 'ZABCDEFGH I!' --size 16",
                                fonts / "brush.ttf", pen_file)));
  REQUIRE_THAT(
      text, ContainsSubstring(fmt::format("9 characters, 2 styles, 2 held out, 16x16, to {}\n"
                                          "source: Source Regular (source.ttf), Free for all\n"
                                          "style brush: Brush Regular (brush.ttf), Free for all\n"
                                          "style pen-x: Pen Regular (pen x.ttf), Free for all\n"
                                          "2 characters left out, which some font lacks: !C\n",
                                          fonts / "out")));
  const GlyphManifest manifest = read_glyph_manifest(fonts / "out");
  REQUIRE(manifest.layout == "bbox");
  REQUIRE(manifest.characters_of(Split::train) ==
          std::vector<char32_t>{'A', 'B', 'E', 'F', 'G', 'I', 'Z'});
  REQUIRE(manifest.characters_of(Split::test) == std::vector<char32_t>{'D', 'H'});
  REQUIRE(manifest.missing ==
          std::vector<MissingCharacter>{{U'!', {"source.ttf", "brush.ttf", "pen x.ttf"}},
                                        {U'C', {"pen x.ttf"}}});
  const Datasets sets = find_dataset(fonts / "out");
  REQUIRE(sets.train.size() == 14);
  const auto image_of = [&](const std::string& file, char32_t code) {
    return Face(fonts / file).draw(code, 16, GlyphLayout::bbox).value().pixels;
  };
  const auto sample = [&](const Dataset& data, const char* field, int64_t n) {
    const auto pixels = data[field].slice(n, n + 1).span<uint8_t>();
    return std::vector<uint8_t>(pixels.begin(), pixels.end());
  };
  REQUIRE(sample(sets.test, "sources", 1) == image_of("source.ttf", U'H'));
  REQUIRE(sample(sets.test, "targets", 1) == image_of("brush.ttf", U'H'));
  REQUIRE(sample(sets.train, "sources", 7) == image_of("source.ttf", U'A'));
  REQUIRE(sample(sets.train, "targets", 7) == image_of("pen x.ttf", U'A'));

  refuse(fonts.command("--target " + (fonts / "brush.ttf") + " --chars ABCD"),
         "out' exists and is no empty directory");
}

TEST_CASE("a limit takes the first characters, of any layout", "[font]") {
  const Fonts fonts;
  fs::create_directory(fonts / "out");  // empty, which is as good as none
  succeed(fonts.command("--target " + (fonts / "brush.ttf") +
                        " --chars '!ZYXWVUTSRA' --limit 9 --size 8 --layout zi2zi"));
  const GlyphManifest manifest = read_glyph_manifest(fonts / "out");
  REQUIRE(manifest.characters.size() == 9);
  REQUIRE(manifest.characters[0] == GlyphCharacter{U'R', true});
  REQUIRE(manifest.layout == "zi2zi");
  REQUIRE(manifest.missing.size() == 1);
}

TEST_CASE("nothing is left of pairs that cannot be made", "[font]") {
  const Fonts fonts;
  TinyFont other;
  other.glyphs[U'永'] = {0, 0, 100, 100};
  const std::string brush = " --target " + (fonts / "brush.ttf") + " ";
  refuse(fonts.command("--target " + fonts.path_of("other.ttf", other.file()) + " --chars ABC"),
         "no character is in every font: of the 3 asked for source.ttf has 3, other.ttf has 0");
  refuse(fonts.command(brush + "--chars ABC"), "none of the 3 characters that all fonts have");
  refuse(fonts.command(brush + "--chars D"), "all of the 1 character that all fonts have");
  refuse(fonts.command(brush + "--chars missing.txt"), "cannot open 'missing.txt'");
  refuse(fonts.command("--target none.ttf --chars ABCD"), "cannot open 'none.ttf'");
  refuse(fonts.command(brush), "--chars is required");
  refuse(fonts.command(brush + "--chars ABCD --size 2000"), "8 to 1024");
  std::string cut = letters("Cut", 100).file();
  cut.resize(cut.size() / 2);
  refuse(fonts.command("--target " + fonts.path_of("cut.ttf", cut) + " --chars ABCD"), "cut.ttf'");
  REQUIRE(fonts.is_clean());
  refuse(fmt::format("font prepare --source {0} --target {0} --chars ABCD --out {0}/x/y",
                     fonts / "source.ttf"),
         "cannot make '");
  refuse(fmt::format("font prepare --source {0} --target {0} --chars ABCD --out {0}",
                     fonts / "source.ttf"),
         "exists and is no empty directory");
}

TEST_CASE("a sheet has its images in rows, with gaps", "[font]") {
  const auto row = [](uint8_t gray) {
    std::vector<GrayImage> images;
    for (int i = 0; i < 5; ++i) images.emplace_back(2, 3, static_cast<uint8_t>(gray + i));
    return images;
  };
  const std::vector<std::vector<GrayImage>> rows{row(10), row(20)};
  const GrayImage image = app::sheet(rows, 2);  // three lines of two columns, the last with one
  REQUIRE((image.width == 7 && image.height == 3 * 5 + 2 * 4));
  const auto gray_at = [&](int64_t y, int64_t x) { return int{image.at(y, x)}; };
  REQUIRE((gray_at(0, 0) == 10 && gray_at(1, 2) == 10 && gray_at(0, 4) == 11));
  REQUIRE((gray_at(3, 0) == 20 && gray_at(3, 4) == 21));
  REQUIRE((gray_at(0, 3) == 208 && gray_at(2, 0) == 208 && gray_at(5, 0) == 208));
  REQUIRE((gray_at(9, 0) == 12 && gray_at(12, 4) == 23));
  REQUIRE((gray_at(18, 0) == 14 && gray_at(18, 4) == 255 && gray_at(22, 6) == 255));
  REQUIRE(app::sheet(rows).width == 5 * 4 - 1);
  REQUIRE_ERROR(app::sheet({}), "a sheet of no images");
  REQUIRE_ERROR(app::sheet(rows, 0), "a sheet of 0 columns");
  REQUIRE_ERROR(app::sheet(std::vector{rows[0], {rows[1][0]}}), "5 and 1 images");
  std::vector<GrayImage> odd = rows[1];
  odd[3] = GrayImage(3, 3);
  REQUIRE_ERROR(app::sheet(std::vector{rows[0], odd}), "3 x 2 and 3 x 3, expected one size");
}

}  // namespace accrue::test
