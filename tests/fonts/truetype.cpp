// Fonts made from drawings. In python/tests/judges fontTools reads one.

#include "fonts/truetype.h"

#include <ft2build.h>
#include FT_FREETYPE_H

#include "fonts/drawn_font.h"
#include "fonts/strokes.h"
#include "tests/support/cli.h"
#include "tests/support/potrace.h"
#include "tests/support/tiny_font.h"

namespace accrue::test {
namespace {

using fonts::Contour;
using fonts::Face;
using fonts::FontFacts;
using fonts::GlyphLayout;
using fonts::OutlinePoint;
using fonts::trace;
using fonts::TrueTypeFont;

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

// A font of drawings. Each fills an em, whose lower left corner is the origin.
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

// Draws the glyphs of such a font by FreeType, with S pixels to an em.
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

TEST_CASE("a font says when it was made", "[fonts]") {
  TrueTypeFont font = font_of({});
  font.glyphs.push_back({U'a', 500, {}});
  font.created = 1'700'000'000;
  const std::string file = encode_truetype(font);
  const auto number = [&](size_t at) {
    uint64_t value = 0;
    for (size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<uint8_t>(file[at + i]);
    return value;
  };
  const size_t entry = file.find("head"), head = number(entry + 8);
  for (const size_t date : {20, 28})  // created and modified, since 1904
    REQUIRE((number(head + date) << 32 | number(head + date + 4)) ==
            uint64_t{1'700'000'000} + 2'082'844'800);
}

TEST_CASE("a font of traced drawings looks like them", "[.potrace]") {
  NEEDS_POTRACE;
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
  REQUIRE(sum / 200 >= 0.97);
}

TEST_CASE("a drawing is put back where the source has its glyph", "[.potrace]") {
  NEEDS_POTRACE;
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
    const GrayImage drawing = source.draw(code, S, layout).value();
    font.glyphs.push_back(
        glyphs_after(source, std::u32string(1, code), std::span(&drawing, 1), layout).front());
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

}  // namespace accrue::test
