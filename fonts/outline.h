#pragma once

#include <vector>

#include "data/png.h"

namespace accrue::fonts {

// A closed outline as in TrueType. It is straight between two consecutive points on the curve. A
// point off the curve controls a quadratic Bézier curve, and in the middle between two such points
// lies an implied point on the curve.
struct OutlinePoint {
  double x, y;  // y upwards
  bool on_curve;
};
using Contour = std::vector<OutlinePoint>;

// The outlines of all that is darker than the middle gray, in pixels from the lower left corner of
// the image, with ink on their right: clockwise around ink, counterclockwise around a hole.
// Anti-aliased edges are found to a tenth of a pixel; shapes smaller than a pixel are left out.
//
// From pixel to pixel the outline passes between ink and paper, at the place that their grays give
// (as in marching squares: Lorensen and Cline, "Marching cubes", SIGGRAPH 1987). Then corners,
// which pixels blunt, are found and sharpened, and curves are fitted between them
// (fonts/fit_curves.h).
std::vector<Contour> trace(const GrayImage& image);

}  // namespace accrue::fonts
