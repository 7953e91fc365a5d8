#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "fonts/postscript.h"

namespace accrue::fonts {

// Black and white pixels, row by row from the top. A byte has eight pixels of a row, the first in
// the highest bit, as in the file format PBM.
class Bitmap {
 public:
  Bitmap(int64_t width, int64_t height)
      : width_(width),
        height_(height),
        row_bytes_((width + 7) / 8),
        bits_(static_cast<size_t>(row_bytes_ * height), '\0') {}

  int64_t width() const { return width_; }
  int64_t height() const { return height_; }
  // y counts from below.
  void blacken(int64_t x, int64_t y) {
    char& byte = bits_[static_cast<size_t>((height_ - 1 - y) * row_bytes_ + x / 8)];
    byte = static_cast<char>(byte | 0x80 >> x % 8);
  }
  std::string pbm() const;

 private:
  int64_t width_, height_, row_bytes_;
  std::string bits_;
};

// Traces the curves of each bitmap in one process of the program potrace (require_potrace(),
// fonts/outline.h). Shapes of up to `speck` pixels are dropped. Calls next(i) once for each i of
// the sizes, in order. Throws Error if potrace fails or prints something that read_postscript()
// does not take.
std::vector<std::vector<TracedCurve>> run_potrace(std::span<const BitmapSize> sizes,
                                                  const std::function<Bitmap(size_t i)>& next,
                                                  int64_t speck);

}  // namespace accrue::fonts
