#pragma once

#include <complex>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace accrue::fonts {

// A closed curve of lines and cubic Bézier curves with black on its left, in pixels from the lower
// left corner of the bitmap. It begins and ends at `start`.
struct TracedCurve {
  using Point = std::complex<double>;
  struct Part {
    bool line;
    Point control1, control2;  // of a cubic
    Point end;
  };
  Point start;
  std::vector<Part> parts;
};

struct BitmapSize {
  int64_t width, height;
};

// Reads the curves of bitmaps of these sizes from potrace's plain PostScript (-b ps -c -q). Each
// bitmap is a page, and a pixel is postscript_unit units. Throws Error for anything else: another
// number of pages, other operators, a curve that leaves its bitmap or does not end where it begins.
constexpr int64_t postscript_unit = 10000;
std::vector<std::vector<TracedCurve>> read_postscript(std::string_view text,
                                                      std::span<const BitmapSize> sizes);

}  // namespace accrue::fonts
