#include "fonts/outline.h"

#include <cmath>
#include <functional>
#include <numbers>

#include "tests/support/catch.h"

namespace accrue::test {
namespace {

using fonts::Contour;
using fonts::OutlinePoint;
using fonts::trace;

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

}  // namespace accrue::test
