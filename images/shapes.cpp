#include "images/shapes.h"

#include <array>
#include <cmath>
#include <span>

#include "core/inside.h"
#include "data/drawing.h"

namespace accrue {
namespace {

// A disc, or a convex polygon with its corners clockwise: the points at most `radius` from the
// centre, on the inner side of every edge.
class ConvexShape {
 public:
  explicit ConvexShape(RandomStream& random) {
    const double size = between(random, 3, 8), turn = between(random, 0, 2 * pi);
    const Point centre{between(random, 3, side - 3), between(random, 3, side - 3)};
    x_ = static_cast<float>(centre.x);
    y_ = static_cast<float>(centre.y);
    corners_ = std::array{0, 3, 4}[random.below(3)];
    radius_ = static_cast<float>(corners_ == 0 ? size : 2 * side);
    // A rectangle's corners lie on a circle in pairs, a triangle's corners nearly evenly.
    const double half = between(random, 0.5, 1.05);
    for (int i = 0; i < corners_; ++i) {
      const double angle = corners_ == 4 ? (i / 2 * pi + (i % 2 ? half : -half))
                                         : (2 * pi * i / 3 + between(random, -0.3, 0.3));
      corner_x_[i] = static_cast<float>(centre.x + 1.3 * size * std::cos(turn + angle));
      corner_y_[i] = static_cast<float>(centre.y + 1.3 * size * std::sin(turn + angle));
    }
  }

  bool covers(float x, float y) const {
    if ((x - x_) * (x - x_) + (y - y_) * (y - y_) > radius_ * radius_) return false;
    for (int i = 0; i < corners_; ++i) {
      const int j = (i + 1) % corners_;
      const float ex = corner_x_[j] - corner_x_[i], ey = corner_y_[j] - corner_y_[i];
      if (ex * (y - corner_y_[i]) - ey * (x - corner_x_[i]) < 0) return false;
    }
    return true;
  }

 private:
  float x_, y_, radius_;
  int corners_;
  std::array<float, 4> corner_x_{}, corner_y_{};
};

void draw_sample(std::span<uint8_t> pixels, std::span<uint8_t> mask, RandomStream random) {
  const int ground = 96 + static_cast<int>(random.below(64));
  std::array<int, side * side> grey;
  grey.fill(ground);
  for (uint32_t left = 1 + random.below(3); left > 0; --left) {
    const ConvexShape shape(random);
    const int difference = 24 + static_cast<int>(random.below(72));
    const int ink = random.below(2) ? ground + difference : ground - difference;
    for (int i = 0; i < side * side; ++i) {
      if (!shape.covers(static_cast<float>(i % side) + 0.5f, static_cast<float>(i / side) + 0.5f))
        continue;
      grey[i] = ink;
      mask[i] = 255;
    }
  }
  const int strength = 32 + static_cast<int>(random.below(64));
  for (int i = 0; i < side * side; ++i) pixels[i] = noisy(grey[i], strength, random);
}

}  // namespace

Dataset make_shapes(Split split, const BuiltInOptions& options) {
  const int64_t N = split == Split::train ? options.train_size : options.test_size;
  check(N >= 1, "a split of the built-in shapes needs at least 1 sample, got {}", N);
  const MemoryScope scope(split == Split::train ? "training data" : "test data");
  const auto bytes = [&] {
    return Tensor::empty({N, 1, side, side}, DType::u8, Device::cpu, Category::data);
  };
  Dataset dataset{"shapes", "built in"};
  dataset.fields = {{"images", bytes(), Encoding::pixel}, {"masks", bytes(), Encoding::mask}};
  const auto pixels = dataset["images"].span<uint8_t>(), mask = dataset["masks"].span<uint8_t>();
  std::ranges::fill(mask, uint8_t{0});
  constexpr size_t size = side * side;
  const uint64_t first = split == Split::train ? 0 : uint64_t{1} << 40;
  for (size_t i = 0; i < static_cast<size_t>(N); ++i)
    draw_sample(pixels.subspan(i * size, size), mask.subspan(i * size, size),
                RandomStream(options.seed, first + i));
  return dataset;
}

}  // namespace accrue
