#pragma once

#include <span>
#include <string>
#include <vector>

#include "data/png.h"

namespace accrue::fonts {

// A closed outline as in TrueType. It is straight between two consecutive points on the curve. A
// point off the curve controls a quadratic Bézier curve. Two consecutive points off the curve imply
// a point on the curve in the middle between them.
struct OutlinePoint {
  double x, y;  // y upwards
  bool on_curve;
};
using Contour = std::vector<OutlinePoint>;

// The version of the program potrace, "1.16", which trace() runs. Throws Error, with what to
// install, unless the PATH has a potrace that tells its version.
std::string require_potrace();

// The outlines of everything darker than the middle gray, in pixels from the lower left corner of
// the image. Ink lies on their right: they run clockwise around ink, counterclockwise around a
// hole. Anti-aliased edges are found to about a tenth of a pixel; shapes smaller than a pixel are
// left out. One process of potrace traces all images of a call. Throws Error as require_potrace()
// does, if no process can be started, and if potrace fails or prints something else than outlines.
//
// The image is first enlarged eight times, which puts the middle gray on the edges that the grays
// mean, and made black and white; potrace's own mkbitmap does the same. Potrace (Selinger,
// "Potrace: a polygon-based tracing algorithm", 2003) finds the outlines of the result. Its cubic
// curves become quadratic ones that differ by at most a twentieth of a pixel.
std::vector<std::vector<Contour>> trace(std::span<const detail::GrayImage> images);
std::vector<Contour> trace(const detail::GrayImage& image);

}  // namespace accrue::fonts
