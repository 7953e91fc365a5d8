#include "fonts/outline.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/inside.h"
#include "fonts/potrace.h"

namespace accrue::fonts {
namespace {

constexpr int64_t enlargement = 8;
// The paper around the image, in its pixels: one pixel is traced, and the interpolation needs two
// more.
constexpr int64_t traced_paper = 1, paper = traced_paper + 2;

// The ink of pixels, from 0 to 1, adjusted for the interpolation. Between a pixel on an edge and
// its neighbour of plain ink or paper, the interpolated ink must be 1/2 at the edge. An edge that
// inks the part v <= 1/2 of a pixel lies 1/2 + v from the centre of the inked neighbour. There the
// line from 1 to g is 1/2 if g = 2 v / (1 + 2 v). For v > 1/2, ink and paper change places.
class Ink {
 public:
  explicit Ink(const GrayImage& image)
      : width_(image.width + 2 * paper),
        ink_(static_cast<size_t>(width_ * (image.height + 2 * paper))) {
    for (int64_t y = 0; y < image.height; ++y)
      for (int64_t x = 0; x < image.width; ++x) {
        const float v = 1 - static_cast<float>(image.at(y, x)) / 255, less = std::min(v, 1 - v);
        const float bent = 2 * less / (1 + 2 * less);
        ink_[place(x + paper, image.height - 1 - y + paper)] = v < 0.5F ? bent : 1 - bent;
      }
  }
  int64_t width() const { return width_; }
  // From the lower left corner of the paper.
  float at(int64_t x, int64_t y) const { return ink_[place(x, y)]; }

 private:
  size_t place(int64_t x, int64_t y) const { return static_cast<size_t>(y * width_ + x); }

  int64_t width_;
  std::vector<float> ink_;
};

// The four pixels, across or upwards, from which a pixel of the enlarged image is interpolated.
struct Neighbours {
  int64_t first;
  std::array<float, 4> weights;
};

// The neighbours for cubic convolution (Keys, "Cubic convolution interpolation for digital image
// processing", 1981).
Neighbours neighbours_of(int64_t enlarged) {
  const float place = (static_cast<float>(enlarged) + 0.5F) / enlargement + 0.5F;
  const float first = std::floor(place), t = place - first, s = 1 - t;
  return {static_cast<int64_t>(first),
          {-t * s * s / 2, s * (2 + 2 * t - 3 * t * t) / 2, t * (2 + 2 * s - 3 * s * s) / 2,
           -t * t * s / 2}};
}

BitmapSize enlarged_size(const GrayImage& image) {
  return {enlargement * (image.width + 2 * traced_paper),
          enlargement * (image.height + 2 * traced_paper)};
}

Bitmap enlarge(const Ink& ink, BitmapSize size) {
  Bitmap bitmap(size.width, size.height);
  std::vector<Neighbours> across;
  for (int64_t x = 0; x < bitmap.width(); ++x) across.push_back(neighbours_of(x));
  std::vector<float> row(static_cast<size_t>(ink.width()));
  for (int64_t y = 0; y < bitmap.height(); ++y) {
    const auto [first, weights] = neighbours_of(y);
    for (size_t x = 0; x < row.size(); ++x) {
      row[x] = 0;
      for (int64_t i = 0; i < 4; ++i)
        row[x] += weights[static_cast<size_t>(i)] * ink.at(static_cast<int64_t>(x), first + i);
    }
    for (int64_t x = 0; x < bitmap.width(); ++x) {
      const auto& [left, shares] = across[static_cast<size_t>(x)];
      float sum = 0;
      for (size_t i = 0; i < 4; ++i) sum += shares[i] * row[static_cast<size_t>(left) + i];
      if (sum > 0.5F) bitmap.blacken(x, y);
    }
  }
  return bitmap;
}

using Point = TracedCurve::Point;

Point in_image(Point p) { return p / double(enlargement) - Point(traced_paper, traced_paper); }

void append(Contour& contour, Point p, bool on_curve) {
  contour.push_back({p.real(), p.imag(), on_curve});
}

// Appends quadratic curves that are nowhere farther than the tolerance from the cubic one. Each of
// n equal parts has an error of sqrt(3) / 36 |c3 - 3 c2 + 3 c1 - c0| / n^3.
void append_cubic(Contour& contour, Point c0, Point c1, Point c2, Point c3) {
  constexpr double tolerance = 0.05;  // pixels
  const double error = std::sqrt(3.0) / 36 * std::abs(c3 - 3.0 * c2 + 3.0 * c1 - c0);
  const int n = std::max(1, static_cast<int>(std::ceil(std::cbrt(error / tolerance))));
  const auto at = [&](double t) {
    const double s = 1 - t;
    return s * s * s * c0 + 3 * s * s * t * c1 + 3 * s * t * t * c2 + t * t * t * c3;
  };
  const auto derivative = [&](double t) {
    const double s = 1 - t;
    return 3 * s * s * (c1 - c0) + 6 * s * t * (c2 - c1) + 3 * t * t * (c3 - c2);
  };
  for (int i = 0; i < n; ++i) {
    const double t0 = double(i) / n, t1 = double(i + 1) / n;
    // The control point (3 (p1 + p2) - p0 - p3) / 4, with p1 = p0 + p0' / 3 and p2 = p3 - p3' / 3.
    append(contour, (at(t0) + at(t1)) / 2.0 + (t1 - t0) / 4 * (derivative(t0) - derivative(t1)),
           false);
    append(contour, at(t1), true);
  }
}

Contour contour_of(const TracedCurve& curve) {
  Contour contour;
  Point at = in_image(curve.start);
  for (const TracedCurve::Part& part : curve.parts) {
    const Point end = in_image(part.end);
    if (part.line) append(contour, end, true);
    else append_cubic(contour, at, in_image(part.control1), in_image(part.control2), end);
    at = end;
  }
  std::ranges::reverse(contour);  // potrace has ink on the left
  return contour;
}

}  // namespace

std::vector<std::vector<Contour>> trace(std::span<const GrayImage> images) {
  std::vector<BitmapSize> sizes;
  for (const GrayImage& image : images) sizes.push_back(enlarged_size(image));
  const auto enlarged = [&](size_t i) { return enlarge(Ink(images[i]), sizes[i]); };
  std::vector<std::vector<Contour>> outlines;
  for (const auto& curves : run_potrace(sizes, enlarged, enlargement * enlargement - 1)) {
    std::vector<Contour>& outline = outlines.emplace_back();
    for (const TracedCurve& curve : curves) outline.push_back(contour_of(curve));
  }
  return outlines;
}

std::vector<Contour> trace(const GrayImage& image) { return trace(std::span(&image, 1)).front(); }

}  // namespace accrue::fonts
