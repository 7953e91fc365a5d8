#include "images/digits.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "core/inside.h"
#include "data/drawing.h"

namespace accrue {
namespace {

using Stroke = std::vector<Point>;

// Glyphs live in the square [-1, 1]^2, y downwards.
Stroke line(Point a, Point b) {
  constexpr int segments = 5;
  Stroke stroke;
  for (int i = 0; i <= segments; ++i) {
    const double t = double(i) / segments;
    stroke.push_back({a.x + t * (b.x - a.x), a.y + t * (b.y - a.y)});
  }
  return stroke;
}

// Part of an ellipse; angles in degrees, clockwise from the right because y points down.
Stroke arc(Point center, double rx, double ry, double from, double to) {
  const int segments = std::max(4, static_cast<int>(std::abs(to - from) / 22));
  Stroke stroke;
  for (int i = 0; i <= segments; ++i) {
    const double angle = (from + (to - from) * i / segments) * pi / 180;
    stroke.push_back({center.x + rx * std::cos(angle), center.y + ry * std::sin(angle)});
  }
  return stroke;
}

using Glyph = std::vector<Stroke>;

// Every way to write each digit.
const std::array<std::vector<Glyph>, 10>& alphabet() {
  static const std::array<std::vector<Glyph>, 10> glyphs{{
      {{arc({0, 0}, 0.6, 0.95, -100, 260)}, {arc({0, 0}, 0.45, 0.9, -70, 290)}},
      {{line({0, -0.95}, {0, 0.95})},
       {line({-0.35, -0.55}, {0.05, -0.95}), line({0.05, -0.95}, {0.05, 0.95})},
       {line({-0.35, -0.55}, {0.05, -0.95}), line({0.05, -0.95}, {0.05, 0.95}),
        line({-0.35, 0.95}, {0.45, 0.95})}},
      {{arc({0, -0.4}, 0.55, 0.55, -170, 40), line({0.42, -0.05}, {-0.6, 0.95}),
        line({-0.6, 0.95}, {0.65, 0.95})},
       {arc({0, -0.45}, 0.5, 0.5, -160, 60), line({0.25, 0}, {-0.35, 0.7}),
        arc({-0.35, 0.78}, 0.22, 0.16, -90, -330), line({-0.2, 0.72}, {0.65, 0.9})}},
      {{arc({0, -0.47}, 0.5, 0.46, -150, 90), arc({0, 0.47}, 0.58, 0.48, -90, 150)},
       {line({-0.5, -0.95}, {0.5, -0.95}), line({0.5, -0.95}, {-0.05, -0.15}),
        arc({-0.05, 0.4}, 0.55, 0.55, -90, 140)}},
      {{line({0.05, -0.95}, {-0.65, 0.3}), line({-0.65, 0.3}, {0.7, 0.3}),
        line({0.3, -0.3}, {0.3, 0.95})},
       {line({-0.5, -0.9}, {-0.55, 0.05}), line({-0.55, 0.05}, {0.5, 0.05}),
        line({0.5, -0.9}, {0.45, 0.95})},
       {line({0.3, -0.95}, {-0.6, 0.35}), line({-0.6, 0.35}, {0.65, 0.35}),
        line({0.3, -0.95}, {0.3, 0.95})}},
      {{line({0.55, -0.95}, {-0.4, -0.95}), line({-0.4, -0.95}, {-0.48, -0.1}),
        arc({-0.02, 0.35}, 0.6, 0.58, -135, 140)},
       {line({0.5, -0.9}, {-0.3, -0.9}), line({-0.3, -0.9}, {-0.5, -0.15}),
        arc({-0.1, 0.35}, 0.5, 0.55, -120, 120)}},
      {{arc({0.35, 0.25}, 0.9, 1.2, -100, -180), arc({0, 0.42}, 0.55, 0.53, 180, 540)},
       {line({0.3, -0.95}, {-0.45, 0.3}), arc({0, 0.45}, 0.48, 0.48, 200, 560)}},
      {{line({-0.6, -0.9}, {0.6, -0.9}), line({0.6, -0.9}, {-0.15, 0.95})},
       {line({-0.6, -0.9}, {0.55, -0.9}), line({0.55, -0.9}, {-0.1, 0.95}),
        line({-0.3, 0.05}, {0.5, 0.05})},
       {line({-0.6, -0.65}, {-0.55, -0.9}), line({-0.55, -0.9}, {0.6, -0.9}),
        arc({0.9, 0.95}, 0.9, 1.9, -110, -180)}},
      {{arc({0, -0.48}, 0.45, 0.45, 90, 450), arc({0, 0.47}, 0.56, 0.5, -90, 270)},
       {arc({0.05, -0.5}, 0.4, 0.42, 70, 380), line({0.38, -0.3}, {-0.4, 0.35}),
        arc({0, 0.52}, 0.47, 0.42, 200, -70), line({0.1, 0.12}, {-0.3, -0.3})}},
      {{arc({0, -0.42}, 0.53, 0.52, 0, 360), arc({-0.35, -0.25}, 0.9, 1.2, 0, 80)},
       {arc({0, -0.45}, 0.5, 0.48, 0, 360), line({0.5, -0.45}, {0.4, 0.95})}},
  }};
  return glyphs;
}

// Maps glyph coordinates to pixels.
class Placement {
 public:
  explicit Placement(RandomStream& random) {
    const double angle = between(random, -0.22, 0.22), shear = between(random, -0.3, 0.3);
    const double height = between(random, 7, 10.5), width = height * between(random, 0.7, 1.1);
    const double c = std::cos(angle), s = std::sin(angle);
    xx_ = width * c, xy_ = width * shear * c - height * s;
    yx_ = width * s, yy_ = width * shear * s + height * c;
    x0_ = side / 2 + between(random, -2, 2), y0_ = side / 2 + between(random, -2, 2);
    wobble_ = between(random, 0, 0.12);
    for (double& w : wave_) w = between(random, -2.5, 2.5);
    for (double& p : phase_) p = between(random, 0, 2 * pi);
  }

  Point operator()(Point p) const {
    const double x = p.x + wobble_ * std::sin(wave_[0] * p.x + wave_[1] * p.y + phase_[0]);
    const double y = p.y + wobble_ * std::sin(wave_[2] * p.x + wave_[3] * p.y + phase_[1]);
    return {x0_ + xx_ * x + xy_ * y, y0_ + yx_ * x + yy_ * y};
  }

 private:
  double xx_, xy_, yx_, yy_, x0_, y0_, wobble_;
  std::array<double, 4> wave_;
  std::array<double, 2> phase_;
};

using Canvas = std::array<float, side * side>;

// canvas = max(canvas, ink * coverage of the segment ab drawn with a round pen).
void draw_segment(Canvas& canvas, Point a, Point b, float radius, float ink) {
  const float ax = static_cast<float>(a.x), ay = static_cast<float>(a.y);
  const float dx = static_cast<float>(b.x) - ax, dy = static_cast<float>(b.y) - ay;
  const float scale = 1.0f / std::max(dx * dx + dy * dy, 1e-6f);
  const float reach = radius + 0.5f;
  const auto pixel = [](float v) { return static_cast<int>(std::clamp<float>(v, 0, side)); };
  const int left = pixel(std::min(ax, ax + dx) - reach), top = pixel(std::min(ay, ay + dy) - reach);
  const int right = pixel(std::max(ax, ax + dx) + reach + 1);
  const int bottom = pixel(std::max(ay, ay + dy) + reach + 1);
  for (int y = top; y < bottom; ++y) {
    const float py = static_cast<float>(y) + 0.5f - ay;
    for (int x = left; x < right; ++x) {
      const float px = static_cast<float>(x) + 0.5f - ax;
      const float t = std::min(std::max((px * dx + py * dy) * scale, 0.0f), 1.0f);
      const float ex = px - t * dx, ey = py - t * dy;
      const float cover =
          std::min(std::max(reach - std::sqrt(ex * ex + ey * ey), 0.0f), 1.0f) * ink;
      canvas[y * side + x] = std::max(canvas[y * side + x], cover);
    }
  }
}

void draw(Canvas& canvas, const Stroke& stroke, const Placement& place, float radius, float ink) {
  Point last = place(stroke[0]);
  for (size_t i = 1; i < stroke.size(); ++i) {
    const Point next = place(stroke[i]);
    draw_segment(canvas, last, next, radius, ink);
    last = next;
  }
}

// Short stray strokes, such as neighbours and smears leave.
void draw_distractors(Canvas& canvas, RandomStream& random) {
  for (uint32_t left = random.below(3); left > 0; --left) {
    const double x = between(random, 0, side), y = between(random, 0, side);
    const double angle = between(random, 0, 2 * pi), length = between(random, 2, 7);
    const float radius = static_cast<float>(between(random, 0.4, 1.0));
    draw_segment(canvas, {x, y}, {x + length * std::cos(angle), y + length * std::sin(angle)},
                 radius, static_cast<float>(between(random, 0.3, 0.9)));
  }
}

// Converts to bytes and adds triangular noise, whose strength differs from image to image.
void expose(std::span<uint8_t> pixels, const Canvas& canvas, RandomStream& random) {
  const int strength = static_cast<int>(random.below(48));
  for (int i = 0; i < side * side; ++i) {
    pixels[i] = noisy(static_cast<int>(canvas[i] * 255.0f + 0.5f), strength, random);
  }
}

int32_t draw_sample(std::span<uint8_t> pixels, RandomStream random) {
  const uint32_t digit = random.below(10);
  const auto& styles = alphabet()[digit];
  const Glyph& glyph = styles[random.below(static_cast<uint32_t>(styles.size()))];
  const Placement place(random);
  const float radius = static_cast<float>(between(random, 0.5, 1.7));
  const float ink = static_cast<float>(between(random, 0.6, 1.0));
  Canvas canvas{};
  for (const Stroke& stroke : glyph) draw(canvas, stroke, place, radius, ink);
  draw_distractors(canvas, random);
  expose(pixels, canvas, random);
  return static_cast<int32_t>(digit);
}

}  // namespace

Dataset make_digits(Split split, const BuiltInOptions& options) {
  const int64_t N = split == Split::train ? options.train_size : options.test_size;
  check(N >= 1, "a split of the built-in digits needs at least 1 sample, got {}", N);
  const MemoryScope scope(split == Split::train ? "training data" : "test data");
  const auto make = [&](const Shape& shape, DType dtype) {
    return Tensor::empty(shape, dtype, Device::cpu, Category::data);
  };
  Dataset dataset{"digits", "built in"};
  dataset.fields = {{"images", make({N, 1, side, side}, DType::u8), Encoding::pixel},
                    {"labels", make({N}, DType::i32), Encoding::index, 10}};
  const auto pixels = dataset["images"].span<uint8_t>();
  const auto labels = dataset["labels"].span<int32_t>();
  const uint64_t first = split == Split::train ? 0 : uint64_t{1} << 40;
  for (int64_t i = 0; i < N; ++i)
    labels[i] = draw_sample(pixels.subspan(i * side * side, side * side),
                            RandomStream(options.seed, first + static_cast<uint64_t>(i)));
  return dataset;
}

}  // namespace accrue
