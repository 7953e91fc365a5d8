#pragma once

#include <span>
#include <vector>

#include "fonts/outline.h"

namespace accrue::fonts {

struct Point {
  double x, y;

  friend Point operator+(Point a, Point b) { return {a.x + b.x, a.y + b.y}; }
  friend Point operator-(Point a, Point b) { return {a.x - b.x, a.y - b.y}; }
  friend Point operator*(double factor, Point a) { return {factor * a.x, factor * a.y}; }
};
double dot(Point a, Point b);
double cross(Point a, Point b);
double length(Point a);
// Of length 1; {0, 0} stays.
Point unit(Point a);

// Appends to the contour, which ends in points[0], curves that pass the points within the tolerance
// to the last of them: cubic ones, as many as it takes, each meeting the next without a corner
// (Schneider, "An algorithm for automatically fitting digitized curves", Graphics Gems, 1990), as
// quadratic ones. Points that lie on a line become a line. At the ends the curve has the directions
// `begin` and `end`, both of length 1 and both pointing into it.
void fit_curves(Contour& contour, std::span<const Point> points, Point begin, Point end,
                double tolerance);

}  // namespace accrue::fonts
