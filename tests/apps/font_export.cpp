// Outlines of drawings, and the fonts that are made of them.

#include <ft2build.h>
#include FT_FREETYPE_H

#include <cmath>
#include <cstdlib>
#include <numbers>

#include "apps/font/export.h"
#include "apps/font/outline.h"
#include "apps/font/truetype.h"
#include "data/glyphs.h"
#include "data/strokes.h"
#include "layers/models.h"
#include "tests/support/cli.h"
#include "tests/support/tiny_font.h"
#include "train/weights.h"

namespace accrue::test {
namespace {

using app::Contour;
using app::Face;
using app::FontFacts;
using app::GlyphLayout;
using app::OutlinePoint;
using app::trace;
using app::TrueTypeFont;

// The image of a shape that says how far inside of it a point is, in pixels: of a straight edge
// through a pixel's centre, half of it is inked.
GrayImage image_of(int64_t S, const std::function<double(double x, double y)>& depth) {
  GrayImage image(S, S);
  for (int64_t y = 0; y < S; ++y)
    for (int64_t x = 0; x < S; ++x) {
      const double ink = std::clamp(depth(double(x) + 0.5, double(S - y) - 0.5) + 0.5, 0.0, 1.0);
      image.at(y, x) = static_cast<uint8_t>(std::lround(255 * (1 - ink)));
    }
  return image;
}

// Twice the area that the outline goes around clockwise, by points that are close on the curves.
double clockwise_area(const Contour& contour) {
  std::vector<OutlinePoint> way;
  const size_t n = contour.size();
  for (size_t i = 0; i < n; ++i) {
    const OutlinePoint p = contour[i], before = contour[(i + n - 1) % n],
                       after = contour[(i + 1) % n];
    if (p.on_curve) {
      way.push_back(p);
      continue;
    }
    REQUIRE((before.on_curve && after.on_curve));
    for (double t = 0.05; t < 1; t += 0.05) {
      const double s = 1 - t, a = s * s, b = 2 * s * t, c = t * t;
      way.push_back(
          {a * before.x + b * p.x + c * after.x, a * before.y + b * p.y + c * after.y, true});
    }
  }
  double twice = 0;
  for (size_t i = 0; i < way.size(); ++i) {
    const OutlinePoint a = way[i], b = way[(i + 1) % way.size()];
    twice += b.x * a.y - a.x * b.y;
  }
  return twice / 2;
}

std::vector<GrayImage> targets_of_strokes(int64_t count) {
  const Dataset strokes = make_strokes(Split::test, {.test_size = count, .side = 64});
  const auto pixels = strokes["targets"].span<uint8_t>();
  std::vector<GrayImage> images;
  for (int64_t n = 0; n < count; ++n) {
    GrayImage& image = images.emplace_back(64, 64);
    std::copy_n(pixels.begin() + n * 64 * 64, 64 * 64, image.pixels.begin());
  }
  return images;
}

constexpr char32_t first_code = U'一';

// A font of drawings that fill an em each, whose lower left corner is the origin.
TrueTypeFont font_of(const std::vector<GrayImage>& drawings) {
  TrueTypeFont font{"Strokes", "Strokes by hand", "Drawn for a test", {}, {}};
  font.source.units_per_em = 1024;
  font.source.line = font.source.typographic = {1024, 0, 100};
  font.source.licence = "Free for all";
  for (size_t i = 0; i < drawings.size(); ++i) {
    TrueTypeFont::Glyph& glyph = font.glyphs.emplace_back();
    glyph = {first_code + static_cast<char32_t>(i), 1024, trace(drawings[i])};
    const double scale = 1024.0 / double(drawings[i].height);
    for (Contour& contour : glyph.outline)
      for (OutlinePoint& p : contour) p = {scale * p.x, scale * p.y, p.on_curve};
  }
  return font;
}

// What FreeType draws of such a font, S pixels an em.
class Rendered {
 public:
  Rendered(const std::string& path, int64_t S) : S_(S) {
    REQUIRE(FT_Init_FreeType(&library_) == 0);
    REQUIRE(FT_New_Face(library_, path.c_str(), 0, &face_) == 0);
    REQUIRE(FT_Set_Pixel_Sizes(face_, 0, static_cast<FT_UInt>(S)) == 0);
  }
  ~Rendered() {
    FT_Done_Face(face_);
    FT_Done_FreeType(library_);
  }
  Rendered(const Rendered&) = delete;
  Rendered& operator=(const Rendered&) = delete;

  GrayImage operator()(char32_t code) const {
    REQUIRE(FT_Load_Char(face_, code, FT_LOAD_RENDER | FT_LOAD_NO_HINTING) == 0);
    const FT_GlyphSlot slot = face_->glyph;
    REQUIRE(slot->advance.x == 64 * S_);
    GrayImage image(S_, S_);
    for (int64_t y = 0; y < slot->bitmap.rows; ++y)
      for (int64_t x = 0; x < slot->bitmap.width; ++x) {
        const int64_t row = S_ - slot->bitmap_top + y, column = slot->bitmap_left + x;
        if (row >= 0 && row < S_ && column >= 0 && column < S_)
          image.at(row, column) =
              static_cast<uint8_t>(255 - slot->bitmap.buffer[y * slot->bitmap.pitch + x]);
      }
    return image;
  }

 private:
  int64_t S_;
  FT_Library library_ = nullptr;
  FT_Face face_ = nullptr;
};

double ink_iou(const GrayImage& a, const GrayImage& b) {
  int64_t both = 0, either = 0;
  for (size_t i = 0; i < a.pixels.size(); ++i) {
    both += a.pixels[i] < 128 && b.pixels[i] < 128 ? 1 : 0;
    either += a.pixels[i] < 128 || b.pixels[i] < 128 ? 1 : 0;
  }
  return either == 0 ? 1 : double(both) / double(either);
}

}  // namespace

TEST_CASE("an outline has ink on its right, and edges between pixels", "[font]") {
  // A disc with a hole that is off its middle. Of a chord of 1 pixel lies at most 1 / (8 r) inside.
  const auto disc = [](double x, double y) { return 20.3 - std::hypot(x - 31.7, y - 33.2); };
  const auto hole = [](double x, double y) { return 7.4 - std::hypot(x - 28.1, y - 36.6); };
  const std::vector<Contour> ring =
      trace(image_of(64, [&](double x, double y) { return std::min(disc(x, y), -hole(x, y)); }));
  REQUIRE(ring.size() == 2);
  const bool first_is_outer = clockwise_area(ring[0]) > 0;
  const Contour &outer = ring[first_is_outer ? 0 : 1], &inner = ring[first_is_outer ? 1 : 0];
  const auto circle = [](double radius) { return std::numbers::pi * radius * radius; };
  REQUIRE(std::abs(clockwise_area(outer) - circle(20.3)) < 2 * std::numbers::pi * 20.3 * 0.1);
  REQUIRE(std::abs(clockwise_area(inner) + circle(7.4)) < 2 * std::numbers::pi * 7.4 * 0.1);
  for (const OutlinePoint& p : outer)
    if (p.on_curve) REQUIRE(std::abs(disc(p.x, p.y)) < 0.15);
  REQUIRE(outer.size() <= 40);  // curves, not a polygon of a hundred sides
}

TEST_CASE("corners stay corners", "[font]") {
  const auto box = [](double x, double y) {
    return std::min({x - 3.25, 28.5 - x, y - 7.75, 20.5 - y});
  };
  const std::vector<Contour> contours = trace(image_of(32, box));
  REQUIRE(contours.size() == 1);
  REQUIRE(contours[0].size() == 4);
  for (const OutlinePoint& p : contours[0]) {
    REQUIRE(p.on_curve);
    REQUIRE(std::min(std::abs(p.x - 3.25), std::abs(p.x - 28.5)) < 0.1);
    REQUIRE(std::min(std::abs(p.y - 7.75), std::abs(p.y - 20.5)) < 0.1);
  }
}

TEST_CASE("odd drawings are traced, too", "[font]") {
  REQUIRE(trace(GrayImage(16, 16)).empty());
  const std::vector<Contour> full = trace(GrayImage(16, 16, 0));  // to the edge of the paper
  REQUIRE(full.size() == 1);
  REQUIRE(std::abs(clockwise_area(full[0]) - 256) < 2);
  GrayImage speck(16, 16);
  speck.at(3, 4) = 0;
  REQUIRE(trace(speck).empty());
  speck.at(3, 5) = 0;  // of two pixels there is a dot
  REQUIRE(trace(speck).size() == 1);
  REQUIRE(clockwise_area(trace(speck)[0]) > 1);
  REQUIRE(trace(GrayImage()).empty());

  // Two squares that touch by their corners are joined if the gray in between is more ink than not.
  const auto squares = [](uint8_t paper) {
    GrayImage image(16, 16, paper);
    for (int64_t y = 4; y < 12; ++y)
      for (int64_t x = 4; x < 12; ++x)
        if ((x < 8) == (y < 8)) image.at(y, x) = 0;
    return trace(image).size();
  };
  REQUIRE(squares(255) == 2);
  REQUIRE(squares(200) == 1);

  // Noise of any kind gives outlines that end where they begin.
  uint32_t state = 1;
  for (int i = 0; i < 50; ++i) {
    GrayImage noise(24, 24);
    for (uint8_t& pixel : noise.pixels)
      pixel = static_cast<uint8_t>((state = state * 1664525 + 1013904223) >> 24);
    double ink = 0, traced = 0;
    for (const uint8_t pixel : noise.pixels) ink += pixel < 128 ? 1 : 0;
    for (const Contour& contour : trace(noise)) traced += clockwise_area(contour);
    REQUIRE(std::abs(traced - ink) < 0.25 * ink);
  }
}

TEST_CASE("a font of traced drawings looks like them", "[font]") {
  const std::vector<GrayImage> drawings = targets_of_strokes(200);
  const Folder folder;
  const std::string file =
      folder.TemporaryDirectory::write("strokes.ttf", encode_truetype(font_of(drawings))).string();
  const Rendered rendered(file, 64);
  double sum = 0, least = 1;
  for (size_t i = 0; i < drawings.size(); ++i) {
    const double iou = ink_iou(drawings[i], rendered(first_code + static_cast<char32_t>(i)));
    INFO("drawing " << i);
    REQUIRE(iou >= 0.9);
    sum += iou;
    least = std::min(least, iou);
  }
  INFO("ink IoU: mean " << sum / 200 << ", least " << least);
  REQUIRE(sum / 200 >= 0.95);
}

TEST_CASE("a drawing is put back where the source has its glyph", "[font]") {
  const Folder folder;
  TinyFont tiny;
  tiny.ascender = 850;
  tiny.glyphs[U'永'] = {100, -50, 500, 150};
  tiny.glyphs[U'\x20000'] = {600, -200, 650, 600};
  tiny.glyphs[U' '] = {0, 0, 0, 0};
  const Face source(folder.TemporaryDirectory::write("tiny.ttf", tiny.file()).string());
  const auto [name, layout] =
      GENERATE(std::pair{"bbox", GlyphLayout::bbox}, std::pair{"zi2zi", GlyphLayout::zi2zi});
  INFO(name);
  TrueTypeFont font = font_after(source, "永 Traced", "For a test");
  REQUIRE(font.glyphs.size() == 1);  // the space
  for (const char32_t code : {U'永', U'\x20000'}) {
    constexpr int64_t S = 128;
    font.glyphs.push_back(
        app::glyph_after(source, code, source.draw(code, S, layout).value(), layout));
    const auto& outline = font.glyphs.back().outline;
    REQUIRE(outline.size() == 1);
    const TinyFont::Box box = tiny.glyphs.at(code);
    const double pixel = 1 / source.placement(code, S, layout).value().scale;  // in units
    const auto near = [&](double a, double b) { return std::abs(a - b) < 0.15 * pixel; };
    const auto [left, right] = std::ranges::minmax(outline[0], {}, &OutlinePoint::x);
    const auto [bottom, top] = std::ranges::minmax(outline[0], {}, &OutlinePoint::y);
    REQUIRE((near(left.x, box.left) && near(right.x, box.right)));
    REQUIRE((near(bottom.y, box.bottom) && near(top.y, box.top)));
  }
  const std::string bytes = encode_truetype(font);
  REQUIRE(bytes == encode_truetype(font));
  const Face traced(folder.TemporaryDirectory::write("traced.ttf", bytes).string());
  const FontFacts facts = traced.facts();
  REQUIRE(facts.family == "永 Traced");
  REQUIRE(facts.licence == "Free for all");
  REQUIRE(facts.copyright == "Nobody");
  REQUIRE(facts.units_per_em == 1000);
  REQUIRE((facts.line.ascender == 850 && facts.line.descender == -200 && facts.line.gap == 0));
  for (const char32_t code : {U'永', U'\x20000', U' '}) REQUIRE(traced.advance(code) == 1000);
  REQUIRE(!traced.advance(U'x'));
  REQUIRE(ink_iou(source.draw(U'永', 64, layout).value(), traced.draw(U'永', 64, layout).value()) >
          0.97);
  TrueTypeFont twice = font;
  twice.glyphs.push_back(twice.glyphs.back());
  REQUIRE_ERROR(encode_truetype(twice), "U+20000 is in a font twice");
}

namespace {

// A font, and weights of a network that has learnt nothing, for 32 pixels and two styles.
struct ExportFolder : Folder {
  ExportFolder() {
    TinyFont font;
    font.name = "Source";
    for (char32_t code = U'A'; code <= U'Z'; ++code) font.glyphs[code] = {100, 0, 700, 700};
    TemporaryDirectory::write("source.ttf", font.file());
    ModelOptions options;
    options.kind = ModelKind::zi2zi;
    options.width = 0.0625;
    options.image = {1, 32, 32};
    options.classes = 2;
    const auto model = make_model(options);
    const Parameters parameters = place(*model, DType::f32, Device::cpu, 1);
    save_weights(*this / "zi2zi.safetensors", parameters,
                 {{"model", "zi2zi"}, {"width", "0.0625"}, {"image", "1x32x32"}, {"classes", "2"}});
    save_weights(*this / "silent.safetensors", parameters,
                 {{"model", "zi2zi"}, {"width", "0.0625"}});
  }
  std::string command(const std::string& rest, const std::string& weights = "zi2zi") const {
    return fmt::format("font export --weights {}.safetensors --font {} --out {} {}",
                       *this / weights, *this / "source.ttf", *this / "new.ttf", rest);
  }
  bool has_written() const { return fs::exists(path() / "new.ttf"); }
  // The data set that it might have been trained on, as far as an export reads it.
  void write_manifest(int64_t size, const std::string& source) const {
    GlyphManifest manifest;
    manifest.size = size;
    manifest.layout = "zi2zi";
    manifest.source = {source, "source.ttf", 0, "Free for all"};
    manifest.styles = {{"ming", {"Ming", "ming.ttf", 0, "Free, too"}}, {"kai", {}}};
    manifest.styles[1].font = {"Kai", "kai.ttf", 0, ""};
    manifest.characters = {{U'A', false}, {U'D', true}};
    write_glyph_manifest(path(), manifest);
  }
};

}  // namespace

TEST_CASE("accrue font export writes a font", "[font]") {
  const ExportFolder folder;
  const std::string text = succeed(folder.command("--chars ABx --style 1"));
  REQUIRE_THAT(text, ContainsSubstring("new.ttf: Source in style 1, drawn by accrue"));
  REQUIRE_THAT(text, ContainsSubstring("1 character left out, which the font lacks: x\n"));
  REQUIRE_THAT(text, ContainsSubstring("licence of the source: Free for all\n"));
  REQUIRE(Face(folder / "new.ttf").facts().family == "Source in style 1");

  folder.write_manifest(32, "Source Regular");
  const std::string data = " --data " + folder.path().string();
  const std::string named = succeed(folder.command("--chars AB --style ming --name Mine" + data));
  REQUIRE_THAT(named, ContainsSubstring("Mine, drawn by accrue"));
  REQUIRE_THAT(named, ContainsSubstring("licence of the style: Free, too\n"));
  REQUIRE(Face(folder / "new.ttf").facts().family == "Mine");
  REQUIRE_THAT(named, !ContainsSubstring("warning"));
  folder.write_manifest(32, "Another Regular");
  REQUIRE_THAT(succeed(folder.command("--chars AB --style ming" + data)),
               ContainsSubstring("learnt to draw from Another Regular, not from Source Regular"));
}

TEST_CASE("what cannot be exported is refused, and nothing written", "[font]") {
  const ExportFolder folder;
  const std::string data = " --data " + folder.path().string();
  refuse(folder.command("--chars AB"), "the network draws 2 styles: expected --data");
  refuse(folder.command("--chars AB --style 2"), "there is no style '2'");
  refuse(folder.command("--chars AB --style kai"), "expected the number of one, from 0 to 1");
  refuse(folder.command("--chars AB --style 0" + data), "has no manifest.json");
  refuse(folder.command("--chars 永字 --style 0"),
         "source.ttf has none of the 2 characters that are asked for");
  refuse(folder.command("--chars AB --style 0", "silent"), "does not say of which images");
  refuse(folder.command("--chars AB --style 0", "none"), "none.safetensors");
  refuse(fmt::format("font export --weights {} --font {} --out /nowhere/new.ttf --chars A",
                     folder / "zi2zi.safetensors", folder / "source.ttf"),
         "/nowhere");
  folder.write_manifest(32, "Source Regular");
  refuse(folder.command("--chars AB --style 0" + data),
         "there is no style '0': expected one of ming, kai");
  refuse(folder.command("--chars AB" + data), "--style is not given: expected one of ming, kai");
  refuse(folder.command("--chars AB --style kai --layout bbox" + data), "leave it out");
  folder.write_manifest(64, "Source Regular");
  refuse(folder.command("--chars AB --style kai" + data),
         "expected the data set that it was trained on");
  const auto mlp = make_model({});
  save_weights(folder / "mlp.safetensors", place(*mlp, DType::f32, Device::cpu, 1),
               {{"model", "mlp"}});
  refuse(folder.command("--chars AB --style 0", "mlp"), "holds weights of a network mlp");
  REQUIRE(!folder.has_written());
}

TEST_CASE("fontTools agrees with what was written", "[.fonttools]") {
  const char* given = std::getenv("ACCRUE_TEST_PYTHON");
  const std::string python = given ? given : "python3";
  if (shell(python + " -c 'import fontTools'").status != 0)
    SKIP_LOUDLY("no Python module fontTools for " << python << " (Debian: python3-fonttools)");
  const Folder folder;
  TrueTypeFont font = font_of(targets_of_strokes(20));
  font.glyphs.push_back({U'\x20000', 500, font.glyphs[0].outline});
  const auto file = folder.TemporaryDirectory::write("strokes.ttf", encode_truetype(font));
  const auto script = folder.TemporaryDirectory::write("check.py", R"(
import sys
from fontTools.pens.areaPen import AreaPen
from fontTools.ttLib import TTFont
font = TTFont(sys.argv[1], checkChecksums=2)  # raises where one is wrong
for table in font.keys():
    font[table]
assert font["head"].unitsPerEm == 1024 and font["maxp"].numGlyphs == 22
assert (font["hhea"].ascent, font["hhea"].descent, font["hhea"].lineGap) == (1024, 0, 100)
assert (font["OS/2"].sTypoAscender, font["OS/2"].usWeightClass) == (1024, 400)
names = {record.nameID: record.toUnicode() for record in font["name"].names}
assert names[1] == "Strokes" and names[4] == "Strokes by hand" and names[13] == "Free for all"
cmap = font.getBestCmap()
assert sorted(cmap) == [*range(0x4e00, 0x4e14), 0x20000], cmap
assert {s.format: len(s.cmap) for s in font["cmap"].tables} == {4: 20, 12: 21}
glyphs = font.getGlyphSet()
for code, name in cmap.items():
    assert font["hmtx"][name][0] == (500 if code == 0x20000 else 1024)
    pen = AreaPen(glyphs)
    glyphs[name].draw(pen)
    assert pen.value < 0, name  # clockwise around ink
# What is said of all glyphs follows from them.
said = {t: {k: v for k, v in vars(font[t]).items() if isinstance(v, int)} for t in ("maxp", "hhea", "head")}
font["maxp"].recalc(font)
font["hhea"].recalc(font)
for table in ("maxp", "hhea", "head"):
    for key, value in said[table].items():
        assert getattr(font[table], key) == value, (table, key, value, getattr(font[table], key))
average = font["OS/2"].xAvgCharWidth
assert font["OS/2"].recalcAvgCharWidth(font) == average
)");
  const Output output = shell(fmt::format("{} '{}' '{}'", python, script.string(), file.string()));
  INFO(output.text);
  REQUIRE(output.status == 0);
}

}  // namespace accrue::test
