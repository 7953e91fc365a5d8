// The built-in shapes: reproducible, and with masks that fit their images.

#include "images/shapes.h"

#include <algorithm>
#include <set>

#include "tests/support/catch.h"

namespace accrue::test {
namespace {

constexpr int64_t pixels = 28 * 28;

// FNV-1a
uint64_t hash(std::span<const uint8_t> bytes, uint64_t h = 0xcbf29ce484222325) {
  for (const uint8_t b : bytes) h = (h ^ b) * 0x100000001b3;
  return h;
}

}  // namespace

TEST_CASE("the shapes are the same on every machine", "[data]") {
  const Dataset data = make_shapes(Split::train, {.train_size = 200});
  REQUIRE(hash(data["masks"].span<uint8_t>(), hash(data["images"].span<uint8_t>())) ==
          0xfb80f7e463572ef3);
  REQUIRE(data["images"].shape() == Shape{200, 1, 28, 28});
  data.check_fields();
  REQUIRE(data.bytes() == 2 * 200 * pixels);
}

TEST_CASE("a shapes sample depends on seed, split and index alone", "[data]") {
  const auto some = make_shapes(Split::train, {.train_size = 10}),
             more = make_shapes(Split::train, {.train_size = 20}),
             test = make_shapes(Split::test, {.test_size = 10}),
             other = make_shapes(Split::train, {.train_size = 10, .seed = 2});
  const auto bytes = [](const Tensor& x) { return x.slice(0, 10).span<uint8_t>(); };
  for (const char* part : {"images", "masks"}) {
    REQUIRE(std::ranges::equal(bytes(some[part]), bytes(more[part])));
    REQUIRE_FALSE(std::ranges::equal(bytes(some[part]), bytes(test[part])));
    REQUIRE_FALSE(std::ranges::equal(bytes(some[part]), bytes(other[part])));
  }
  REQUIRE_ERROR(make_shapes(Split::test, {.test_size = 0}), "at least 1 sample, got 0");
}

TEST_CASE("masks are where the shapes are", "[data]") {
  const Dataset data = make_shapes(Split::test);
  const auto image = data["images"].span<uint8_t>(), mask = data["masks"].span<uint8_t>();
  REQUIRE(std::ranges::all_of(mask, [](uint8_t m) { return m == 0 || m == 255; }));
  double covered = 0;
  int64_t recognised = 0;
  for (int64_t n = 0; n < data.size(); ++n) {
    double inside = 0, ground = 0, contrast = 0;
    for (int64_t i = n * pixels; i < (n + 1) * pixels; ++i) {
      inside += mask[i] != 0;
      if (mask[i] == 0) ground += image[i];
    }
    REQUIRE(inside >= 9);
    REQUIRE(inside < pixels);
    ground /= pixels - inside;
    double noise = 0;
    for (int64_t i = n * pixels; i < (n + 1) * pixels; ++i)
      (mask[i] ? contrast : noise) += std::abs(image[i] - ground);
    recognised += contrast / inside > noise / (pixels - inside);
    covered += inside / pixels;
  }
  // The shapes cover about a fifth of the pixels. In nearly every image their mean stands out from
  // the background, although single pixels do not.
  REQUIRE(covered / double(data.size()) > 0.1);
  REQUIRE(covered / double(data.size()) < 0.4);
  REQUIRE(recognised > 0.95 * double(data.size()));
}

}  // namespace accrue::test
