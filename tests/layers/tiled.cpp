#include "layers/tiled.h"

#include "core/random.h"
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

}  // namespace

TEST_CASE("tiles answer as the whole image where they share what a pixel depends on", "[models]") {
  Sequential model;
  model.add<Conv2d>(3, 8, 3, Conv2dShape{.padding = 1});
  model.add<Relu>();
  model.add<Conv2d>(8, 2, 3, Conv2dShape{.padding = 1});
  const Parameters parameters = place(model, DType::f64, test_device(), 5);
  const NoGrad no_grad;
  const auto answer = [](const Module& how) {
    return to_doubles(how(images_to_cut(), Pass::eval()));
  };
  const auto whole = answer(model);
  // A pixel depends on two others on every side. Sums of 27 and 72 products in any order.
  for (const auto& [size, overlap] :
       std::vector<std::pair<int64_t, int64_t>>{{64, 0}, {10, 4}, {8, 4}, {7, 6}, {21, 12}}) {
    INFO(size << " " << overlap);
    const auto tiled = answer(Tiled(model, size, overlap));
    REQUIRE(tiled.size() == whole.size());
    for (size_t i = 0; i < whole.size(); ++i)
      REQUIRE(tiled[i] == Approx(whole[i]).margin(200 * 1.2e-16 * 10));
  }
  REQUIRE(answer(Tiled(model, 10, 2)) != whole);
}

TEST_CASE("tiles that cannot be are refused", "[models]") {
  const Sequential model;
  REQUIRE_ERROR(Tiled(model, 8, 3), "expected an even overlap");
  REQUIRE_ERROR(Tiled(model, 8, 8), "smaller than a tile");
  Sequential pools;
  pools.add<MaxPool2d>(Pool2dShape{2});
  place(pools, DType::f64, test_device(), 1);
  const NoGrad no_grad;
  REQUIRE_ERROR(Tiled(pools, 8, 0)(images_to_cut(), Pass::eval()), "expected images of their size");
}

}  // namespace accrue::test
