// The built-in strokes: they are reproducible, and the same drawing looks very different in two
// hands.

#include "fonts/strokes.h"

#include <algorithm>

#include "tests/support/catch.h"

namespace accrue::test {
namespace {

// FNV-1a
uint64_t strokes_hash(std::span<const uint8_t> bytes, uint64_t h = 0xcbf29ce484222325) {
  for (const uint8_t b : bytes) h = (h ^ b) * 0x100000001b3;
  return h;
}

uint64_t strokes_hash(const Dataset& data) {
  return strokes_hash(data["targets"].span<uint8_t>(),
                      strokes_hash(data["sources"].span<uint8_t>()));
}

}  // namespace

TEST_CASE("the strokes are the same on every machine", "[data]") {
  const Dataset data = make_strokes(Split::train, {.train_size = 100});
  data.check_fields();
  REQUIRE(data["sources"].shape() == Shape{100, 1, 64, 64});
  REQUIRE(data["targets"].shape() == Shape{100, 1, 64, 64});
  REQUIRE(data.field("styles").classes == 1);
  REQUIRE(strokes_hash(data) == 0xc960d89a2f66f8c1);
  REQUIRE(strokes_hash(make_strokes(Split::test, {.test_size = 3, .side = 256})) ==
          0x27671dce6810499d);
}

TEST_CASE("a strokes sample depends on seed, split and index alone", "[data]") {
  const auto some = make_strokes(Split::train, {.train_size = 5, .side = 32}),
             more = make_strokes(Split::train, {.train_size = 9, .side = 32}),
             test = make_strokes(Split::test, {.test_size = 5, .side = 32}),
             other = make_strokes(Split::train, {.train_size = 5, .seed = 2, .side = 32});
  const auto bytes = [](const Tensor& x) { return x.slice(0, 5).span<uint8_t>(); };
  for (const char* part : {"sources", "targets"}) {
    REQUIRE(std::ranges::equal(bytes(some[part]), bytes(more[part])));
    REQUIRE_FALSE(std::ranges::equal(bytes(some[part]), bytes(test[part])));
    REQUIRE_FALSE(std::ranges::equal(bytes(some[part]), bytes(other[part])));
  }
  REQUIRE_ERROR(make_strokes(Split::test, {.test_size = 0}), "at least 1 sample, got 0");
  REQUIRE_ERROR(make_strokes(Split::test, {.side = 65}), "64, 128 or 256 pixels, got 65");
}

TEST_CASE("the thin pen is a bad drawing of the brush's", "[data]") {
  for (const int64_t S : {32, 64, 128, 256}) {
    const int64_t N = S > 64 ? 20 : 200;
    const Dataset data = make_strokes(Split::train, {.train_size = N, .side = S});
    const auto thin = data["sources"].span<uint8_t>(), broad = data["targets"].span<uint8_t>();
    double sum_of_iou = 0;
    for (int64_t n = 0; n < N; ++n) {
      double both = 0, either = 0, thin_ink = 0, broad_ink = 0;
      for (int64_t i = n * S * S; i < (n + 1) * S * S; ++i) {
        const bool in_thin = thin[i] < 128, in_broad = broad[i] < 128;
        both += in_thin && in_broad;
        either += in_thin || in_broad;
        thin_ink += in_thin;
        broad_ink += in_broad;
      }
      // Each of three strokes covers at least 2 x 0.1 x 0.028 of the square; the brush draws them
      // wider.
      REQUIRE(thin_ink > 0.006 * double(S * S));
      REQUIRE(broad_ink > 1.2 * thin_ink);
      REQUIRE(broad_ink < 0.5 * double(S * S));
      sum_of_iou += both / either;
    }
    REQUIRE(sum_of_iou / double(N) > 0.3);
    REQUIRE(sum_of_iou / double(N) < 0.5);
  }
}

}  // namespace accrue::test
