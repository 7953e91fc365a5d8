#include "fonts/outline.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numbers>

#include "fonts/fit_curves.h"

namespace accrue::fonts {
namespace {

constexpr double middle_gray = 127.5;
constexpr double least_area = 1;    // of a contour, in pixels
constexpr double least_fitted = 8;  // pixels around: of smaller dots all points are kept
constexpr double fit_tolerance = 0.08;
// Pixels blunt a corner this far along the outline; beyond, up to the reach, its sides show.
constexpr double blunt_length = 1.1, side_reach = 2.5;
constexpr double corner_reach = 2;
constexpr double corner_angle = 0.3 * std::numbers::pi;

// The gray at the centres of pixels, y upwards, with white paper around.
class Grays {
 public:
  explicit Grays(const GrayImage& image) : image_(image) {}
  double at(int64_t x, int64_t y) const {
    const bool inside = x >= 0 && y >= 0 && x < image_.width && y < image_.height;
    return inside ? image_.at(image_.height - 1 - y, x) : 255;
  }

 private:
  const GrayImage& image_;
};

// Between the pixel (x, y) and its right or upper neighbour: where the outline crosses.
struct Crossing {
  Point place;
  int64_t next;  // along the outline, ink on the right
};
using Crossings = std::map<int64_t, Crossing>;

// A square between the centres of four pixels. Counterclockwise from its lower left (x, y), corner
// i has side i to the next one.
class PixelSquare {
 public:
  PixelSquare(const Grays& grays, int64_t x, int64_t y) : x_(x), y_(y) {
    for (size_t i = 0; i < 4; ++i) gray_[i] = grays.at(x + right[i], y + up[i]);
  }
  bool ink(int i) const { return gray_[static_cast<size_t>(i % 4)] < middle_gray; }
  bool is_inked_on_average() const {
    return gray_[0] + gray_[1] + gray_[2] + gray_[3] < 4 * middle_gray;
  }
  // Likewise for the square on its other side.
  int64_t side(int i, int64_t width) const {
    const auto k = static_cast<size_t>(i % 4);
    const size_t l = (k + 1) % 4;
    const int64_t x = x_ + std::min(right[k], right[l]), y = y_ + std::min(up[k], up[l]);
    return 2 * ((y + 1) * (width + 2) + x + 1) + i % 2;
  }
  // Where the outline crosses it.
  Point place(int i) const {
    const auto k = static_cast<size_t>(i % 4);
    const size_t l = (k + 1) % 4;
    // A straight edge of any direction that is anti-aliased, and inks these two alone of the row or
    // column, is this far from the centre of the darker.
    const double from_darker = 1.5 - (gray_[k] + gray_[l]) / 255;
    const double t = gray_[k] < gray_[l] ? from_darker : 1 - from_darker;
    const auto between = [&](int64_t a, int64_t b) { return double(a) + t * double(b - a); };
    return {double(x_) + 0.5 + between(right[k], right[l]),
            double(y_) + 0.5 + between(up[k], up[l])};
  }

 private:
  static constexpr std::array<int64_t, 4> right{0, 1, 1, 0}, up{0, 0, 1, 1};

  int64_t x_, y_;
  std::array<double, 4> gray_{};
};

Crossings crossings_of(const GrayImage& image) {
  const Grays grays(image);
  Crossings crossings;
  for (int64_t y = -1; y < image.height; ++y)
    for (int64_t x = -1; x < image.width; ++x) {
      const PixelSquare square(grays, x, y);
      for (int i = 0; i < 4; ++i) {
        if (square.ink(i) || !square.ink(i + 1)) continue;
        // The outline enters here. It goes around this ink; or, where two corners of ink lie across
        // and the gray between them says that they are joined, around the white corner.
        const bool saddle = square.ink(i + 3) && !square.ink(i + 2);
        int out = i + 1;
        if (saddle && square.is_inked_on_average()) out = i + 3;
        else
          while (!square.ink(out) || square.ink(out + 1)) ++out;
        crossings[square.side(i, image.width)] = {square.place(i), square.side(out, image.width)};
      }
    }
  return crossings;
}

std::vector<std::vector<Point>> polygons_of(const GrayImage& image) {
  constexpr double same = 1e-6;  // pixels
  Crossings crossings = crossings_of(image);
  std::vector<std::vector<Point>> polygons;
  while (!crossings.empty()) {
    std::vector<Point> polygon;
    int64_t next = 0;
    for (auto at = crossings.begin(); at != crossings.end(); at = crossings.find(next)) {
      const Point place = at->second.place;
      if (polygon.empty() || length(place - polygon.back()) > same) polygon.push_back(place);
      next = at->second.next;
      crossings.erase(at);
    }
    while (polygon.size() > 1 && length(polygon.front() - polygon.back()) <= same)
      polygon.pop_back();
    if (polygon.size() >= 3) polygons.push_back(std::move(polygon));
  }
  return polygons;
}

double area_of(const std::vector<Point>& polygon) {
  double twice = 0;
  for (size_t i = 0; i < polygon.size(); ++i) {
    const Point a = polygon[i], b = polygon[(i + 1) % polygon.size()];
    twice += cross(a, b);
  }
  return std::abs(twice) / 2;
}

// A closed polygon, by positions along it: lengths from its first point.
class ClosedPath {
 public:
  explicit ClosedPath(const std::vector<Point>& points)
      : points_(points), begin_(points.size() + 1) {
    for (size_t i = 0; i < points.size(); ++i)
      begin_[i + 1] = begin_[i] + length(point(i + 1) - point(i));
  }
  double total() const { return begin_.back(); }
  // Points are counted on, around and around.
  Point point(size_t i) const { return points_[i % points_.size()]; }
  double position(size_t i) const {
    return begin_[i % points_.size()] + total() * static_cast<double>(i / points_.size());
  }
  // The first point behind a position from 0 on.
  size_t after(double position) const {
    const double rounds = std::floor(position / total());
    const auto next = std::ranges::upper_bound(begin_, position - rounds * total());
    return static_cast<size_t>(next - begin_.begin()) +
           points_.size() * static_cast<size_t>(rounds);
  }
  // The point that far along.
  Point at(double position) const {
    position -= std::floor(position / total()) * total();
    const auto next = std::ranges::upper_bound(begin_, position);
    const size_t i = std::min(static_cast<size_t>(next - begin_.begin()), points_.size()) - 1;
    const double step = begin_[i + 1] - begin_[i];
    const double t = step > 0 ? (position - begin_[i]) / step : 0;
    return (1 - t) * point(i) + t * point(i + 1);
  }

 private:
  const std::vector<Point>& points_;
  std::vector<double> begin_;
};

double turn_at(const ClosedPath& path, double position, double reach) {
  const Point here = path.at(position);
  const Point before = here - path.at(position - reach), after = path.at(position + reach) - here;
  return std::abs(std::atan2(cross(before, after), dot(before, after)));
}

// Where the outline turns more than anywhere within reach, and so much that it is a corner.
std::vector<double> corners_of(const ClosedPath& path, double reach) {
  const auto n = static_cast<size_t>(std::ceil(path.total() / 0.2));
  const double step = path.total() / static_cast<double>(n);
  std::vector<double> turn(n);
  for (size_t i = 0; i < n; ++i) turn[i] = turn_at(path, static_cast<double>(i) * step, reach);
  const auto near = std::min(static_cast<size_t>(reach / step), (n - 1) / 2);
  std::vector<double> corners;
  for (size_t i = 0; i < n; ++i) {
    bool most = turn[i] > corner_angle;
    for (size_t k = 1; most && k <= near; ++k)
      most = turn[(i + k) % n] < turn[i] && turn[(i + n - k) % n] <= turn[i];
    if (most) corners.push_back(static_cast<double>(i) * step);
  }
  return corners;
}

// Where the sides of a corner would meet that pixels have blunted; they are that long. The place on
// the outline itself where they meet nowhere near.
Point sharpened(const ClosedPath& path, double corner, double before, double after) {
  const auto from = [&](double length) { return std::min(blunt_length, length / 3); };
  const auto to = [&](double length) { return std::min(side_reach, length / 2); };
  const Point here = path.at(corner);
  const Point a = path.at(corner - from(before)), u = a - path.at(corner - to(before));
  const Point b = path.at(corner + from(after)), v = b - path.at(corner + to(after));
  const double sine = cross(u, v);
  if (std::abs(sine) < 0.3 * length(u) * length(v)) return here;
  const Point meeting = a + (cross(b - a, v) / sine) * u;
  return length(meeting - here) < 1 ? meeting : here;
}

// The points between two positions, and at their ends those that are given.
std::vector<Point> stretch(const ClosedPath& path, double begin, double end, Point first,
                           Point last) {
  std::vector<Point> points{first};
  for (size_t i = path.after(begin); path.position(i) < end; ++i) points.push_back(path.point(i));
  points.push_back(last);
  return points;
}

void append_smooth(Contour& contour, const ClosedPath& path) {
  const double reach = std::min(side_reach, path.total() / 8);
  const Point start = path.at(0), along = unit(path.at(reach) - path.at(-reach));
  contour.push_back({start.x, start.y, true});
  fit_curves(contour, stretch(path, 0, path.total(), start, start), along, -1 * along,
             fit_tolerance);
}

Contour contour_of(const std::vector<Point>& polygon) {
  const ClosedPath path(polygon);
  Contour contour;
  if (path.total() < least_fitted) {
    for (const Point p : polygon) contour.push_back({p.x, p.y, true});
    return contour;
  }
  const std::vector<double> corners = corners_of(path, std::min(corner_reach, path.total() / 8));
  const size_t n = corners.size();
  if (n == 0) {
    append_smooth(contour, path);
  } else {
    std::vector<double> side(n);  // from each corner to the next
    for (size_t k = 0; k < n; ++k)
      side[k] = k + 1 < n ? corners[k + 1] - corners[k] : corners[0] + path.total() - corners[k];
    std::vector<Point> place(n);
    for (size_t k = 0; k < n; ++k)
      place[k] = sharpened(path, corners[k], side[(k + n - 1) % n], side[k]);
    contour.push_back({place[0].x, place[0].y, true});
    for (size_t k = 0; k < n; ++k) {
      const double begin = corners[k], end = begin + side[k];
      const double blunt = std::min(blunt_length, side[k] / 3);
      const double reach = std::min(side_reach, side[k] / 2);
      const Point first = place[k], last = place[(k + 1) % n];
      fit_curves(contour, stretch(path, begin + blunt, end - blunt, first, last),
                 unit(path.at(begin + reach) - first), unit(path.at(end - reach) - last),
                 fit_tolerance);
    }
  }
  contour.pop_back();  // is the first again
  return contour;
}

}  // namespace

std::vector<Contour> trace(const GrayImage& image) {
  std::vector<Contour> contours;
  for (const std::vector<Point>& polygon : polygons_of(image))
    if (area_of(polygon) >= least_area) contours.push_back(contour_of(polygon));
  return contours;
}

}  // namespace accrue::fonts
