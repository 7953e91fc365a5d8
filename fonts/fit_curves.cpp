#include "fonts/fit_curves.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace accrue::fonts {

double dot(Point a, Point b) { return a.x * b.x + a.y * b.y; }
double cross(Point a, Point b) { return a.x * b.y - a.y * b.x; }
double length(Point a) { return std::hypot(a.x, a.y); }
Point unit(Point a) {
  const double size = length(a);
  return size > 0 ? (1 / size) * a : a;
}

namespace {

using Cubic = std::array<Point, 4>;

Point at(const Cubic& c, double t) {
  const double s = 1 - t;
  return (s * s * s) * c[0] + (3 * s * s * t) * c[1] + (3 * s * t * t) * c[2] + (t * t * t) * c[3];
}
Point derivative(const Cubic& c, double t) {
  const double s = 1 - t;
  return (3 * s * s) * (c[1] - c[0]) + (6 * s * t) * (c[2] - c[1]) + (3 * t * t) * (c[3] - c[2]);
}
Point second_derivative(const Cubic& c, double t) {
  return (6 * (1 - t)) * (c[2] - 2 * c[1] + c[0]) + (6 * t) * (c[3] - 2 * c[2] + c[1]);
}

// As quadratic ones that are nowhere farther than that from the cubic. Cut into n equal parts, each
// has an error of sqrt(3) / 36 |c3 - 3 c2 + 3 c1 - c0| / n^3.
void append(Contour& contour, const Cubic& c) {
  constexpr double tolerance = 0.02;
  const double error = std::sqrt(3.0) / 36 * length(c[3] - 3 * c[2] + 3 * c[1] - c[0]);
  const int n = std::clamp(static_cast<int>(std::ceil(std::cbrt(error / tolerance))), 1, 16);
  for (int i = 0; i < n; ++i) {
    const double t0 = double(i) / n, t1 = double(i + 1) / n;
    const Point p0 = at(c, t0), p3 = at(c, t1);
    // (3 (c1 + c2) - c0 - c3) / 4 of the part, whose c1 = p0 + p0' / 3 and c2 = p3 - p3' / 3
    const Point control =
        0.5 * (p0 + p3) + ((t1 - t0) / 4) * (derivative(c, t0) - derivative(c, t1));
    contour.push_back({control.x, control.y, false});
    contour.push_back({p3.x, p3.y, true});
  }
}

std::vector<double> chord_lengths(std::span<const Point> points) {
  std::vector<double> t(points.size());
  for (size_t i = 1; i < points.size(); ++i) t[i] = t[i - 1] + length(points[i] - points[i - 1]);
  const double total = std::max(t.back(), 1e-9);
  for (double& each : t) each /= total;
  return t;
}

// The cubic with these ends and directions that is closest to the points, each at its t.
Cubic closest(std::span<const Point> points, std::span<const double> t, Point begin, Point end) {
  const Point first = points.front(), last = points.back();
  double c00 = 0, c01 = 0, c11 = 0, x0 = 0, x1 = 0;
  for (size_t i = 0; i < points.size(); ++i) {
    const double s = 1 - t[i];
    const double b0 = s * s * s, b1 = 3 * s * s * t[i], b2 = 3 * s * t[i] * t[i],
                 b3 = t[i] * t[i] * t[i];
    const Point a0 = b1 * begin, a1 = b2 * end;
    const Point rest = points[i] - (b0 + b1) * first - (b2 + b3) * last;
    c00 += dot(a0, a0);
    c01 += dot(a0, a1);
    c11 += dot(a1, a1);
    x0 += dot(a0, rest);
    x1 += dot(a1, rest);
  }
  const double determinant = c00 * c11 - c01 * c01, chord = length(last - first);
  double alpha0 = 0, alpha1 = 0;
  if (determinant > 1e-9 * c00 * c11) {
    alpha0 = (x0 * c11 - x1 * c01) / determinant;
    alpha1 = (x1 * c00 - x0 * c01) / determinant;
  }
  // Controls behind an end, or far beyond the other, would make a loop.
  if (std::min(alpha0, alpha1) < 0.05 * chord || std::max(alpha0, alpha1) > chord)
    alpha0 = alpha1 = chord / 3;
  return {first, first + alpha0 * begin, last + alpha1 * end, last};
}

// Moves each t to where the curve is nearest its point, by a step of Newton's.
void improve(std::span<double> t, const Cubic& c, std::span<const Point> points) {
  for (size_t i = 0; i < points.size(); ++i) {
    const Point d = at(c, t[i]) - points[i], d1 = derivative(c, t[i]);
    const double slope = dot(d1, d1) + dot(d, second_derivative(c, t[i]));
    if (slope > 1e-12) t[i] = std::clamp(t[i] - dot(d, d1) / slope, 0.0, 1.0);
  }
}

struct Worst {
  double distance = 0;
  size_t place = 0;
};
Worst worst_of(std::span<const Point> points, std::span<const double> t, const Cubic& c) {
  Worst worst{0, points.size() / 2};
  for (size_t i = 1; i + 1 < points.size(); ++i)
    if (const double d = length(at(c, t[i]) - points[i]); d > worst.distance) worst = {d, i};
  return worst;
}

bool is_line(std::span<const Point> points, double tolerance) {
  const Point first = points.front(), along = unit(points.back() - first);
  if (length(along) == 0) return points.size() < 3;
  return std::ranges::all_of(
      points, [&](Point p) { return std::abs(cross(along, p - first)) < tolerance; });
}

void fit(Contour& contour, std::span<const Point> points, Point begin, Point end,
         double tolerance) {
  constexpr int improvements = 4;
  // A direction between neighbours would be that of their errors.
  constexpr double tangent_reach = 1.2;  // pixels
  std::vector<double> t = chord_lengths(points);
  Worst worst;
  for (int i = 0; i <= improvements; ++i) {
    const Cubic cubic = closest(points, t, begin, end);
    worst = worst_of(points, t, cubic);
    if (worst.distance < tolerance) return append(contour, cubic);
    if (worst.distance > 8 * tolerance) break;  // one curve will not do
    improve(t, cubic, points);
  }
  const size_t middle = worst.place;
  const Point here = points[middle];
  const auto is_far = [&](Point p) { return length(p - here) >= tangent_reach; };
  const auto later = points.subspan(middle), earlier = points.first(middle + 1);
  const auto next = std::ranges::find_if(later, is_far);
  const auto last = std::find_if(earlier.rbegin(), earlier.rend(), is_far);
  const Point after = next == later.end() ? points.back() : *next;
  const Point before = last == earlier.rend() ? points.front() : *last;
  const Point through = unit(after - before);
  fit(contour, earlier, begin, -1 * through, tolerance);
  fit(contour, later, through, end, tolerance);
}

}  // namespace

void fit_curves(Contour& contour, std::span<const Point> points, Point begin, Point end,
                double tolerance) {
  if (points.size() == 2 || is_line(points, tolerance))
    contour.push_back({points.back().x, points.back().y, true});
  else fit(contour, points, begin, end, tolerance);
}

}  // namespace accrue::fonts
