#pragma once

#include <vector>

#include "data/png.h"

namespace accrue::fonts {

// A closed outline as TrueType has it: straight between two points on it; one that is not controls
// a quadratic Bézier curve, and between two of these lies a point on the outline, in the middle.
struct OutlinePoint {
  double x, y;  // y upwards
  bool on_curve;
};
using Contour = std::vector<OutlinePoint>;

// The outlines of what is darker than the middle gray, in pixels from the lower left corner of the
// image, with ink on their right: clockwise around ink, counterclockwise around a hole. The edges
// of what is anti-aliased are found to a tenth of a pixel; what is smaller than a pixel is left
// out.
//
// From pixel to pixel the outline passes between ink and paper (as marching squares do: Lorensen
// and Cline, "Marching cubes", SIGGRAPH 1987), where the grays of the two have it. Then corners,
// which pixels blunt, are found and sharpened, and curves fitted between them
// (fonts/fit_curves.h).
std::vector<Contour> trace(const GrayImage& image);

}  // namespace accrue::fonts
