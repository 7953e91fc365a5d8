#pragma once

#include <span>
#include <string>
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

// The version of the program potrace, "1.16", which trace() runs. Throws Error, with what to
// install, unless there is one on the PATH that tells its version.
std::string require_potrace();

// The outlines of all that is darker than the middle gray, in pixels from the lower left corner of
// the image, with ink on their right: clockwise around ink, counterclockwise around a hole.
// Anti-aliased edges are found to about a tenth of a pixel; shapes smaller than a pixel are left
// out. One process of potrace traces all images of a call. Throws Error as require_potrace() does,
// if no process can be made, and if potrace fails or prints something else than outlines.
//
// The image is enlarged eight times, so that the middle gray lies where the grays have the edge,
// and made black and white, as potrace's own mkbitmap does it. Potrace (Selinger, "Potrace: a
// polygon-based tracing algorithm", 2003) finds the outlines of that. Its cubic curves become
// quadratic ones within a twentieth of a pixel.
std::vector<std::vector<Contour>> trace(std::span<const detail::GrayImage> images);
std::vector<Contour> trace(const detail::GrayImage& image);

}  // namespace accrue::fonts
