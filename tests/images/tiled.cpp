#include "images/tiled.h"

#include "core/ledger.h"
#include "core/random.h"
#include "images/tiled_unet.h"
#include "layers/layers.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"

namespace accrue::test {
namespace {

Tensor images_to_cut() {
  const Shape shape{2, 3, 21, 34};
  RandomStream random(31);
  std::vector<double> values(static_cast<size_t>(shape.numel()));
  for (double& value : values) value = random.normal();
  return Tensor::from(values, shape, test_device());
}

// Noise that is strong and bright on the left, and weak and dark on the right: no tile has the mean
// and variance of the image.
template <class T>
Tensor uneven_images(const Shape& shape) {
  RandomStream random(32);
  std::vector<T> values(static_cast<size_t>(shape.numel()));
  for (size_t i = 0; i < values.size(); ++i) {
    const bool left = int64_t(i) % shape[3] < shape[3] / 2;
    values[i] = static_cast<T>(left ? 3 + random.normal() : 0.2 * random.normal());
  }
  return Tensor::from(values, shape, test_device());
}

std::vector<double> answer(const Layer& model, const Tensor& images) {
  const NoGrad no_grad;
  return to_doubles(model(images, Pass::eval()));
}

}  // namespace

TEST_CASE("tiles answer like the whole image if they share all that a pixel depends on",
          "[models]") {
  Sequential model;
  model.add<Conv2d>(3, 8, 3, Conv2dShape{.padding = 1});
  model.add<Relu>();
  model.add<Conv2d>(8, 2, 3, Conv2dShape{.padding = 1});
  const Parameters parameters = place(model, DType::f64, test_device(), 5);
  const auto whole = answer(model, images_to_cut());
  // A pixel depends on two pixels on every side. The sums have 27 and 72 products, in any order.
  for (const auto& [size, overlap] :
       std::vector<std::pair<int64_t, int64_t>>{{64, 0}, {10, 4}, {8, 4}, {7, 6}, {21, 12}}) {
    INFO(size << " " << overlap);
    const auto tiled = answer(Tiled(model, size, overlap), images_to_cut());
    REQUIRE(tiled.size() == whole.size());
    for (size_t i = 0; i < whole.size(); ++i)
      REQUIRE(tiled[i] == Approx(whole[i]).margin(200 * 1.2e-16 * 10));
  }
  REQUIRE(answer(Tiled(model, 10, 2), images_to_cut()) != whole);
}

TEST_CASE("a U-Net in tiles answers as the whole image, its group norms too", "[models]") {
  struct Case {
    std::vector<int64_t> channels;
    Shape images;
    std::vector<int64_t> sizes;
  };
  // Sizes that do not divide into whole pixels of the coarsest level. The last tiles have one or
  // more rows that no other tile has.
  for (const auto& [channels, images, sizes] :
       {Case{{8, 16, 24}, {2, 3, 38, 51}, {12, 24, 44, 48}},
        Case{{8, 8, 8, 8}, {1, 1, 21, 90}, {32}}, Case{{8}, {1, 2, 13, 17}, {10}}}) {
    UNet unet(channels, 0, InitScheme::kaiming, images[1], 2);
    const Parameters parameters = place(unet, DType::f64, test_device(), 5);
    const Tensor x = uneven_images<double>(images);
    const auto whole = answer(unet, x);
    for (const int64_t size : sizes) {
      if (reduced() && (size == 24 || size == 48)) continue;
      INFO(fmt::format("{} in tiles of {}", images, size));
      REQUIRE(largest_difference(answer(TiledUNet(unet, size), x), whole) < 1e-12);
      // If each tile computed its own norms, the result would be far off.
      if (channels.size() > 1 && !reduced())
        REQUIRE(largest_difference(answer(Tiled(unet, size, 8), x), whole) > 0.1);
    }
  }
}

TEST_CASE("a U-Net in tiles answers in float32 and takes little memory", "[models]") {
  UNet unet(std::vector<int64_t>{16, 32, 64}, 0, InitScheme::kaiming, 3, 4);
  const Parameters parameters = place(unet, DType::f32, test_device(), 6);
  const int64_t side = on_runner() ? 80 : 200;
  const Tensor x = uneven_images<float>({1, 3, side, side + 10});
  const auto peak_of = [&](const Layer& model, std::vector<double>& y) {
    const size_t before = ledger(test_device()).current().total();
    ledger(test_device()).reset_peak();
    y = answer(model, x);
    return ledger(test_device()).peak().total() - before;
  };
  std::vector<double> whole, tiled;
  const size_t most = peak_of(unet, whole), least = peak_of(TiledUNet(unet, 32), tiled);
  // Tiles and whole images may use different algorithms. Both round in 11 convolutions, whose sums
  // have at most 9 x 64 products of numbers around 1: by sqrt(576) units each.
  REQUIRE(largest_difference(whole, tiled) < 2 * 11 * 24 * 0x1p-24);
  INFO(least << " of " << most);
  if (!on_runner()) REQUIRE(2 * least < most);
}

TEST_CASE("tiles that cannot be are refused", "[models]") {
  const Sequential model;
  REQUIRE_ERROR(Tiled(model, 8, 3), "expected an even overlap");
  REQUIRE_ERROR(Tiled(model, 8, 8), "smaller than a tile");
  Sequential pools;
  pools.add<MaxPool2d>(Pool2dShape{2});
  place(pools, DType::f64, test_device(), 1);
  const NoGrad no_grad;
  UNet unet(std::vector<int64_t>{8, 8});
  REQUIRE_ERROR(TiledUNet(unet, 8), "expected an even number above 8");
  REQUIRE_ERROR(TiledUNet(unet, 33), "expected an even number above 8");
  REQUIRE_ERROR(TiledUNet(unet, 32)(images_to_cut(), Pass{}), "evaluation only");
  REQUIRE_ERROR(Tiled(pools, 8, 0)(images_to_cut(), Pass::eval()), "expected images of their size");
}

}  // namespace accrue::test
