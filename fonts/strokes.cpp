#include "fonts/strokes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "core/inside.h"
#include "data/drawing.h"

namespace accrue {
namespace {

// The strokes of Chinese characters, in the unit square. Each kind is drawn in one direction only,
// so the bare line shows where the brush began.
enum class StrokeKind { across, down, left_falling, right_falling, dot, turning };
constexpr std::array frequent{
    StrokeKind::across,       StrokeKind::across,        StrokeKind::down, StrokeKind::down,
    StrokeKind::left_falling, StrokeKind::right_falling, StrokeKind::dot,  StrokeKind::turning};

// A quadratic Bezier curve from `begin` to `end`. `bend` is its control point, or the corner of a
// turning stroke.
struct CharacterStroke {
  StrokeKind kind;
  Point begin, bend, end;
};

// Puts the next stroke across, or down, where none is yet.
class Lanes {
 public:
  double next(RandomStream& random) {
    uint32_t lane = random.below(count);
    while (taken_[lane]) lane = (lane + 1) % count;
    taken_[lane] = true;
    return 0.14 + 0.72 * (lane + between(random, 0.25, 0.75)) / count;
  }

 private:
  static constexpr uint32_t count = 7;  // at least as many as a character has strokes
  std::array<bool, count> taken_{};
};

CharacterStroke stroke_of(StrokeKind kind, Lanes& rows, Lanes& columns, RandomStream& random) {
  const auto along = [&](double length) { return between(random, 0.1, 0.9 - length); };
  const double length = between(random, 0.38, 0.74);
  Point a{}, b{};
  switch (kind) {
    case StrokeKind::across:
      a = {along(length), rows.next(random)};
      b = {a.x + length, a.y};
      return {kind, a, {(a.x + b.x) / 2, a.y}, b};
    case StrokeKind::down:
      a = {columns.next(random), along(length)};
      b = {a.x, a.y + length};
      return {kind, a, {a.x, (a.y + b.y) / 2}, b};
    case StrokeKind::dot: {
      const double size = between(random, 0.1, 0.15);
      a = {along(size), along(size)};
      b = {a.x + size, a.y + size};
      return {kind, a, {a.x + 0.7 * size, a.y + 0.35 * size}, b};
    }
    case StrokeKind::turning: {
      const double width = between(random, 0.3, 0.6), height = between(random, 0.3, 0.6);
      a = {along(width), along(height)};
      return {kind, a, {a.x + width, a.y}, {a.x + width, a.y + height}};
    }
    case StrokeKind::left_falling:
    case StrokeKind::right_falling: break;
  }
  const double width = between(random, 0.28, 0.5);
  const double left = along(width), top = along(length);
  const bool to_left = kind == StrokeKind::left_falling;
  a = {to_left ? left + width : left, top};
  b = {to_left ? left : left + width, top + length};
  return {kind, a, {a.x + (b.x - a.x) * 0.2, a.y + (b.y - a.y) * 0.6}, b};
}

std::vector<CharacterStroke> character(RandomStream& random) {
  Lanes rows, columns;
  std::vector<CharacterStroke> strokes;
  for (uint32_t left = 3 + random.below(5); left > 0; --left) {
    const StrokeKind kind = frequent[random.below(frequent.size())];
    strokes.push_back(stroke_of(kind, rows, columns, random));
  }
  return strokes;
}

// Part of a stroke as a pen leaves it: from a to b in the unit square, with a radius that changes
// from a_radius to b_radius.
struct Trace {
  Point a, b;
  double a_radius, b_radius;
};

constexpr int curve_pieces = 16;

Point point_at(const CharacterStroke& stroke, double t) {
  const auto mixed = [](Point p, Point q, double u) {
    return Point{p.x + u * (q.x - p.x), p.y + u * (q.y - p.y)};
  };
  if (stroke.kind == StrokeKind::turning)
    return t < 0.5 ? mixed(stroke.begin, stroke.bend, 2 * t)
                   : mixed(stroke.bend, stroke.end, 2 * t - 1);
  return mixed(mixed(stroke.begin, stroke.bend, t), mixed(stroke.bend, stroke.end, t), t);
}

std::vector<Trace> drawn_by_pen(const std::vector<CharacterStroke>& strokes) {
  constexpr double radius = 0.014;
  std::vector<Trace> traces;
  for (const CharacterStroke& stroke : strokes)
    for (int i = 0; i < curve_pieces; ++i)
      traces.push_back({point_at(stroke, double(i) / curve_pieces),
                        point_at(stroke, double(i + 1) / curve_pieces), radius, radius});
  return traces;
}

// The brush's radius at t of a stroke, relative to its usual radius.
double pressure(StrokeKind kind, double t) {
  const double middle = 4 * t * (1 - t);
  switch (kind) {
    case StrokeKind::across: return 0.85 - 0.35 * middle;
    case StrokeKind::down: return 1.3 - 0.3 * middle;
    case StrokeKind::left_falling: return 1.35 - 1.25 * t;
    case StrokeKind::right_falling: return t < 0.8 ? 0.3 + 1.5 * t : 1.5 - 7 * (t - 0.8);
    case StrokeKind::dot: return 0.2 + 1.5 * t;
    case StrokeKind::turning: return t < 0.5 ? 0.7 : 1.25;
  }
  return 1;
}

// Characters written by hand rise to the right.
Point risen(Point p) { return {p.x, p.y - 0.1 * (p.x - 0.5)}; }

std::vector<Trace> drawn_by_brush(const std::vector<CharacterStroke>& strokes) {
  constexpr double radius = 0.034;
  std::vector<Trace> traces;
  for (const CharacterStroke& stroke : strokes) {
    const auto at = [&](double t) { return risen(point_at(stroke, t)); };
    const auto add = [&](Point a, Point b, double a_radius, double b_radius) {
      traces.push_back({a, b, a_radius * radius, b_radius * radius});
    };
    for (int i = 0; i < curve_pieces; ++i) {
      const double t = double(i) / curve_pieces, u = double(i + 1) / curve_pieces;
      add(at(t), at(u), pressure(stroke.kind, t), pressure(stroke.kind, u));
    }
    const Point begin = at(0), corner = at(0.5), end = at(1);
    if (stroke.kind != StrokeKind::dot && stroke.kind != StrokeKind::right_falling)  // set down
      add({begin.x - 0.025, begin.y - 0.03}, {begin.x + 0.012, begin.y + 0.012}, 0.2, 1.1);
    if (stroke.kind == StrokeKind::across)  // lifted
      add({end.x - 0.05, end.y - 0.045}, {end.x, end.y}, 0.1, 1.25);
    if (stroke.kind == StrokeKind::turning) {
      add({corner.x - 0.04, corner.y - 0.045}, corner, 0.1, 1.4);
      add(end, {end.x - 0.1, end.y - 0.05}, 1.3, 0.1);
    }
  }
  return traces;
}

// ink = max(ink, coverage of the trace), on S x S pixels.
void draw_trace(std::span<float> ink, int64_t S, const Trace& trace) {
  const auto scaled = [&](double v) { return static_cast<float>(v * static_cast<double>(S)); };
  const float ax = scaled(trace.a.x), ay = scaled(trace.a.y), r = scaled(trace.a_radius);
  const float dx = scaled(trace.b.x) - ax, dy = scaled(trace.b.y) - ay;
  const float dr = scaled(trace.b_radius) - r;
  const float scale = 1.0f / std::max(dx * dx + dy * dy, 1e-6f);
  const float reach = std::max(r, r + dr) + 0.5f;
  const auto pixel = [&](float v) {
    return static_cast<int64_t>(std::clamp(v, 0.0f, static_cast<float>(S)));
  };
  const int64_t left = pixel(std::min(ax, ax + dx) - reach);
  const int64_t top = pixel(std::min(ay, ay + dy) - reach);
  const int64_t right = pixel(std::max(ax, ax + dx) + reach + 1);
  const int64_t bottom = pixel(std::max(ay, ay + dy) + reach + 1);
  for (int64_t y = top; y < bottom; ++y) {
    const float py = static_cast<float>(y) + 0.5f - ay;
    for (int64_t x = left; x < right; ++x) {
      const float px = static_cast<float>(x) + 0.5f - ax;
      const float t = std::min(std::max((px * dx + py * dy) * scale, 0.0f), 1.0f);
      const float ex = px - t * dx, ey = py - t * dy;
      const float cover = r + t * dr + 0.5f - std::sqrt(ex * ex + ey * ey);
      float& here = ink[static_cast<size_t>(y * S + x)];
      here = std::max(here, std::min(cover, 1.0f));
    }
  }
}

void draw_traces(std::span<uint8_t> pixels, int64_t S, const std::vector<Trace>& traces) {
  std::vector<float> ink(pixels.size());
  for (const Trace& trace : traces) draw_trace(ink, S, trace);
  for (size_t i = 0; i < ink.size(); ++i)
    pixels[i] = static_cast<uint8_t>(255 - static_cast<int>(ink[i] * 255.0f + 0.5f));
}

}  // namespace

Dataset make_strokes(Split split, const StrokesOptions& options) {
  const int64_t N = split == Split::train ? options.train_size : options.test_size;
  const int64_t S = options.side;
  check(N >= 1, "a split of the built-in strokes needs at least 1 sample, got {}", N);
  check(S == 32 || S == 64 || S == 128 || S == 256,
        "the built-in strokes are drawn with a side of 32, 64, 128 or 256 pixels, got {}", S);
  const MemoryScope scope(split == Split::train ? "training data" : "test data");
  const auto make = [&](const Shape& shape, DType dtype) {
    return Tensor::empty(shape, dtype, Device::cpu, Category::data);
  };
  Dataset dataset{"strokes", "built in"};
  dataset.fields = {{"sources", make({N, 1, S, S}, DType::u8), Encoding::pixel},
                    {"targets", make({N, 1, S, S}, DType::u8), Encoding::pixel},
                    {"styles", make({N}, DType::i32), Encoding::index, 1}};
  const auto sources = dataset["sources"].span<uint8_t>();
  const auto targets = dataset["targets"].span<uint8_t>();
  std::ranges::fill(dataset["styles"].span<int32_t>(), 0);
  const auto size = static_cast<size_t>(S * S);
  const uint64_t first = split == Split::train ? 0 : uint64_t{1} << 40;
  for (size_t i = 0; i < static_cast<size_t>(N); ++i) {
    RandomStream random(options.seed, first + i);
    const std::vector<CharacterStroke> strokes = character(random);
    draw_traces(sources.subspan(i * size, size), S, drawn_by_pen(strokes));
    draw_traces(targets.subspan(i * size, size), S, drawn_by_brush(strokes));
  }
  return dataset;
}

}  // namespace accrue
