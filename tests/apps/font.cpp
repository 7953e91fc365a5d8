// Directories of pairs of glyphs, made from fonts.

#include "fonts/face.h"
#include "fonts/glyphs.h"
#include "tests/support/cli.h"
#include "tests/support/tiny_font.h"

namespace accrue::test {
namespace {

using fonts::Face;
using fonts::GlyphLayout;

// A folder with fonts, and the command that makes pairs from them.
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
  // True if the folder has nothing but the fonts.
  bool is_clean() const {
    for (const auto& entry : fs::directory_iterator(path()))
      if (entry.path().extension() != ".ttf") return false;
    return true;
  }
};

}  // namespace

TEST_CASE("pairs are made of fonts, and missing characters are left out and named", "[font]") {
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
  const Datasets sets = load_glyphs(fonts / "out");
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
  fs::create_directory(fonts / "out");  // an empty directory may be written to
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
         "would replace --source");
  refuse(fmt::format("font prepare --source {0} --target {0} --chars ABCD --out {1}",
                     fonts / "source.ttf", fonts.path().string()),
         "exists and is no empty directory");
}

}  // namespace accrue::test
