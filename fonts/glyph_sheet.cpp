#include "fonts/glyph_sheet.h"

#include <algorithm>

#include "core/error.h"

namespace accrue {
namespace {

constexpr uint8_t gap_gray = 208;
constexpr int64_t gap_pixels = 1;
constexpr int64_t line_gap_pixels = 4;  // between the lines that the rows are broken into

void paste(GrayImage& onto, const GrayImage& image, int64_t top, int64_t left) {
  for (int64_t y = 0; y < image.height; ++y)
    std::copy_n(image.pixels.begin() + y * image.width, image.width,
                onto.pixels.begin() + (top + y) * onto.width + left);
}

}  // namespace

GrayImage glyph_sheet(std::span<const std::vector<GrayImage>> rows, int64_t columns) {
  check(!rows.empty() && !rows[0].empty(), "a sheet of no images: expected one or more");
  check(columns > 0, "a sheet of {} columns: expected one or more", columns);
  const auto count = static_cast<int64_t>(rows[0].size()), R = static_cast<int64_t>(rows.size());
  const int64_t height = rows[0][0].height, width = rows[0][0].width;
  for (const std::vector<GrayImage>& row : rows) {
    check(static_cast<int64_t>(row.size()) == count,
          "the rows of a sheet have {} and {} images, expected as many in each", count, row.size());
    for (const GrayImage& image : row)
      check(image.height == height && image.width == width,
            "the images of a sheet are {} x {} and {} x {}, expected one size", width, height,
            image.width, image.height);
  }
  const int64_t across = std::min(columns, count), lines = (count + columns - 1) / columns;
  const int64_t step_x = width + gap_pixels, step_y = height + gap_pixels;
  const int64_t line_step = R * step_y - gap_pixels + line_gap_pixels;
  GrayImage result(lines * line_step - line_gap_pixels, across * step_x - gap_pixels, gap_gray);
  for (int64_t i = 0; i < lines * across; ++i)
    for (int64_t r = 0; r < R; ++r) {
      const int64_t top = i / across * line_step + r * step_y, left = i % across * step_x;
      const bool there = i < count;  // the last line may be short
      paste(result,
            there ? rows[static_cast<size_t>(r)][static_cast<size_t>(i)] : GrayImage(height, width),
            top, left);
    }
  return result;
}

}  // namespace accrue
