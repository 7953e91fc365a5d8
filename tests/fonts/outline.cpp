#include "fonts/outline.h"

#include <cmath>
#include <functional>
#include <numbers>

#include "tests/support/catch.h"
#include "tests/support/potrace.h"

namespace accrue::test {
namespace {

using fonts::Contour;
using fonts::OutlinePoint;
using fonts::trace;

// The image of a shape. depth(x, y) is the distance, in pixels, of a point inside the shape from
// its edge. A pixel whose center lies on a straight edge is half ink.
GrayImage image_of(int64_t S, const std::function<double(double x, double y)>& depth) {
  GrayImage image(S, S);
  for (int64_t y = 0; y < S; ++y)
    for (int64_t x = 0; x < S; ++x) {
      const double ink = std::clamp(depth(double(x) + 0.5, double(S - y) - 0.5) + 0.5, 0.0, 1.0);
      image.at(y, x) = static_cast<uint8_t>(std::lround(255 * (1 - ink)));
    }
  return image;
}

// Closely spaced points on the curves of an outline.
std::vector<OutlinePoint> points_along(const Contour& contour) {
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
  return way;
}

// The area that the outline goes around clockwise.
double clockwise_area(const Contour& contour) {
  const std::vector<OutlinePoint> way = points_along(contour);
  double twice = 0;
  for (size_t i = 0; i < way.size(); ++i) {
    const OutlinePoint a = way[i], b = way[(i + 1) % way.size()];
    twice += b.x * a.y - a.x * b.y;
  }
  return twice / 2;
}

// The distance of a point from an outline, in pixels.
double distance(const Contour& contour, double x, double y) {
  double nearest = 1e9;
  for (const OutlinePoint& p : points_along(contour))
    nearest = std::min(nearest, std::hypot(p.x - x, p.y - y));
  return nearest;
}

}  // namespace

TEST_CASE("an outline has ink on its right, and edges between pixels", "[.potrace]") {
  NEEDS_POTRACE;
  // A disc with a hole that is off-center. A chord of 1 pixel lies at most 1 / (8 r) inside of the
  // circle.
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
  for (const OutlinePoint& p : points_along(outer)) REQUIRE(std::abs(disc(p.x, p.y)) < 0.15);
  REQUIRE(outer.size() < 100);  // curves, not a polygon with a side for each of 160 pixels
}

TEST_CASE("sides lie where grays put them, and corners stay corners", "[.potrace]") {
  NEEDS_POTRACE;
  const double left = 3.25, right = 28.5, bottom = 7.75, top = 20.5;
  const auto box = [&](double x, double y) {
    return std::min({x - left, right - x, y - bottom, top - y});
  };
  const std::vector<Contour> contours = trace(image_of(32, box));
  REQUIRE(contours.size() == 1);
  for (const double x : {left, right})
    for (const double y : {bottom, top}) REQUIRE(distance(contours[0], x, y) < 0.35);
  for (const OutlinePoint& p : points_along(contours[0])) {
    const double to_corner =
        std::hypot(std::min(p.x - left, right - p.x), std::min(p.y - bottom, top - p.y));
    REQUIRE(std::abs(box(p.x, p.y)) <= (to_corner < 4 ? 0.25 : 0.06));
  }
}

TEST_CASE("odd drawings are traced, too", "[.potrace]") {
  NEEDS_POTRACE;
  REQUIRE(trace(GrayImage(16, 16)).empty());
  const std::vector<Contour> full = trace(GrayImage(16, 16, 0));  // to the edge of the paper
  REQUIRE(full.size() == 1);
  REQUIRE(std::abs(clockwise_area(full[0]) - 256) < 2);
  GrayImage speck(16, 16);
  speck.at(3, 4) = 0;
  REQUIRE(trace(speck).empty());
  speck.at(3, 5) = 0;  // two pixels make a dot
  REQUIRE(trace(speck).size() == 1);
  REQUIRE(clockwise_area(trace(speck)[0]) > 1);
  REQUIRE(trace(GrayImage()).empty());

  // Two squares that touch by their corners are joined if the gray in between is more ink than not.
  const auto squares = [](uint8_t paper) {
    GrayImage image(16, 16, paper);
    for (int64_t y = 4; y < 12; ++y)
      for (int64_t x = 4; x < 12; ++x)
        if ((x < 8) == (y < 8)) image.at(y, x) = 0;
    return trace(image);
  };
  REQUIRE(squares(255).size() == 2);
  for (const Contour& square : squares(255)) REQUIRE(distance(square, 8, 8) < 0.1);
  REQUIRE(squares(200).size() == 1);

  // Any noise gives closed outlines.
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

}  // namespace accrue::test
