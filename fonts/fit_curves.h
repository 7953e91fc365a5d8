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
// The vector with length 1; {0, 0} stays as it is.
Point unit(Point a);

// Appends curves to the contour, which must end in points[0]. They pass the points within the
// tolerance and end in the last of them. As many cubic curves as it takes, each meeting the next
// without a corner, are fitted (Schneider, "An algorithm for automatically fitting digitized
// curves", Graphics Gems, 1990) and converted to quadratic ones. Points that lie on a line become a
// line. At the ends the curve has the directions `begin` and `end`, both of length 1 and both
// pointing into it.
void fit_curves(Contour& contour, std::span<const Point> points, Point begin, Point end,
                double tolerance);

}  // namespace accrue::fonts
