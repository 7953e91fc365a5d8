#include "core/inside.h"
#include "fonts/glyph_drawings.h"
#include "tests/support/catch.h"

namespace accrue::test {

TEST_CASE("a sheet has its images in rows, with gaps", "[font]") {
  const auto row = [](uint8_t gray) {
    std::vector<GrayImage> images;
    for (int i = 0; i < 5; ++i) images.emplace_back(2, 3, static_cast<uint8_t>(gray + i));
    return images;
  };
  const std::vector<std::vector<GrayImage>> rows{row(10), row(20)};
  const GrayImage image =
      glyph_sheet(rows, 2);  // three lines of two columns; the last line has one glyph
  REQUIRE((image.width == 7 && image.height == 3 * 5 + 2 * 4));
  const auto gray_at = [&](int64_t y, int64_t x) { return int{image.at(y, x)}; };
  REQUIRE((gray_at(0, 0) == 10 && gray_at(1, 2) == 10 && gray_at(0, 4) == 11));
  REQUIRE((gray_at(3, 0) == 20 && gray_at(3, 4) == 21));
  REQUIRE((gray_at(0, 3) == 208 && gray_at(2, 0) == 208 && gray_at(5, 0) == 208));
  REQUIRE((gray_at(9, 0) == 12 && gray_at(12, 4) == 23));
  REQUIRE((gray_at(18, 0) == 14 && gray_at(18, 4) == 255 && gray_at(22, 6) == 255));
  REQUIRE(glyph_sheet(rows).width == 5 * 4 - 1);
  REQUIRE_ERROR(glyph_sheet({}), "a sheet of no images");
  REQUIRE_ERROR(glyph_sheet(rows, 0), "a sheet of 0 columns");
  REQUIRE_ERROR(glyph_sheet(std::vector{rows[0], {rows[1][0]}}), "5 and 1 images");
  std::vector<GrayImage> odd = rows[1];
  odd[3] = GrayImage(3, 3);
  REQUIRE_ERROR(glyph_sheet(std::vector{rows[0], odd}), "3 x 2 and 3 x 3, expected one size");
}

}  // namespace accrue::test
