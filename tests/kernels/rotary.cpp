#include "kernels/rotary.h"

#include <cmath>
#include <numbers>

#include "core/autograd.h"
#include "kernels/arithmetic.h"
#include "kernels/detail/vector_sin_cos.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"
#include "tests/support/op_table.h"

namespace accrue::test {
namespace {

Tensor positions_like(const Tensor& x, const std::vector<int32_t>& positions) {
  return Tensor::from(positions, {x.size(0), x.size(1)}, x.device());
}

// The rotation with complex numbers: each pair is multiplied by e^(i angle).
Values turned(const Values& x, const Rotary& rotary, const std::vector<int32_t>& positions) {
  const auto pairs = static_cast<size_t>(rotary.size / 2), size = 2 * pairs;
  const size_t C = x.size() / positions.size();
  Values y(x.size());
  for (size_t head = 0; head < x.size(); head += size)
    for (size_t i = 0; i < pairs; ++i) {
      const bool halves = rotary.layout == RotaryLayout::halves;
      const size_t a = head + (halves ? i : 2 * i), b = halves ? a + pairs : a + 1;
      const double angle = positions[head / C] * rotary.frequencies[i];
      y[a] = x[a] * std::cos(angle) - x[b] * std::sin(angle);
      y[b] = x[a] * std::sin(angle) + x[b] * std::cos(angle);
    }
  return y;
}

Op rotary_op(std::string name, const Shape& shape, const Rotary& by,
             const std::vector<int32_t>& positions) {
  return {
      .name = std::move(name),
      .inputs = {shape},
      .run = [=](const auto& in) { return rotary(in[0], by, positions_like(in[0], positions)); },
      .reference = [=](const auto& in) { return turned(in[0], by, positions); }};
}

Tensor filled(const Shape& shape, DType dtype = DType::f32) {
  return Tensor::full(shape, 1, dtype, test_device());
}

}  // namespace

TEST_CASE("rotary", "[ops]") {
  for (const auto layout : {RotaryLayout::halves, RotaryLayout::interleaved}) {
    const Rotary by{6, rotary_frequencies(6), layout};
    check_op(rotary_op("rotary of two heads", {2, 3, 12}, by, {0, 1, 2, 5, 0, 9}));
    check_op(rotary_op("rotary of one head", {1, 2, 2}, {2, {0.5}, layout}, {3, -2}));
    const Rotary large{36, rotary_frequencies(36, 500), layout};
    check_op(rotary_op("rotary of a large head", {1, 3, 72}, large, {7, 7, 1}));
    Op twice = rotary_op("rotary, twice", {1, 2, 6}, by, {4, 3});
    twice.run = [by](const auto& in) {
      return rotary(rotary(in[0], by, positions_like(in[0], {3, 5})), by,
                    positions_like(in[0], {1, -2}));
    };
    twice.roundings = 2;
    check_op(twice);
  }
}

// An angle computed in float32 would be wrong by up to 2^-9.
TEST_CASE("rotary keeps the digits of far positions", "[ops]") {
  const Rotary by{4, {1, 0.3}};
  const std::vector<int32_t> positions{32768, 131071, 1 << 30};
  const Tensor x = filled({1, 3, 4});
  const Values y = to_doubles(rotary(x, by, positions_like(x, positions)));
  const Values expected = turned(Values(12, 1), by, positions);
  REQUIRE(largest_difference(y, expected) <= 4 * 0x1p-24);
}

TEST_CASE("vector_sin_cos is within a unit of the last place of 1", "[ops]") {
  for (double x = -2000; x < 2000; x += 0.37) {
    const auto [sin, cos] = vector_sin_cos(x);
    REQUIRE(std::abs(sin - std::sin(x)) <= 0x1p-52);
    REQUIRE(std::abs(cos - std::cos(x)) <= 0x1p-52);
  }
  REQUIRE(vector_sin_cos(0).sin == 0);
  REQUIRE(vector_sin_cos(0).cos == 1);
}

TEST_CASE("rotary writes over its input exactly when it is handed the last reference", "[ops]") {
  Tensor x = filled({1, 2, 4});
  const Rotary by{4, {1, 0.5}};
  const Tensor positions = positions_like(x, {1, 2});
  const void* storage = x.view().data;
  REQUIRE(rotary(x, by, positions).view().data != storage);
  REQUIRE(to_doubles(x) == Values(8, 1));
  REQUIRE(rotary(std::move(x), by, positions).view().data == storage);
}

// The frequencies of transformers' ROPE_INIT_FUNCTIONS["llama3"] and ["linear"], recomputed in
// double.
TEST_CASE("rotary's frequencies equal Hugging Face's rope types", "[ops]") {
  const std::vector<double> f = rotary_frequencies(8, 500000);
  REQUIRE(f.size() == 4);
  for (size_t i = 0; i < 4; ++i) REQUIRE(f[i] == Approx(std::pow(500000, -double(i) / 4)));
  REQUIRE(scale_linearly(f, 4)[1] == f[1] / 4);

  // The numbers of turns within the original context are 1304, 49, 1.84 and 0.07.
  const std::vector<double> scaled = scale_as_llama3(f, {.factor = 8});
  REQUIRE(scaled[0] == f[0]);
  REQUIRE(scaled[1] == f[1]);
  const double smooth = (8192 * f[2] / (2 * std::numbers::pi) - 1) / 3;
  REQUIRE(scaled[2] == Approx((1 - smooth) * f[2] / 8 + smooth * f[2]));
  REQUIRE((smooth > 0 && smooth < 1));
  REQUIRE(scaled[3] == Approx(f[3] / 8));
}

TEST_CASE("rotary refuses what does not fit", "[ops]") {
  const MetaScope on(GENERATE(false, true));
  const Tensor x = filled({2, 3, 8});
  const Tensor positions = positions_like(x, std::vector<int32_t>(6));
  const auto by = [](int64_t size) { return Rotary{size, rotary_frequencies(size)}; };
  REQUIRE_ERROR(rotary(x, by(3), positions), "heads of 3 with 1 frequencies");
  REQUIRE_ERROR(rotary(x, {4, {1}}, positions), "heads of 4 with 1 frequencies");
  REQUIRE_ERROR(rotary(filled({2, 3, 258}), by(258), positions), "at most 256");
  REQUIRE_ERROR(rotary(x, by(6), positions), "x [2, 3, 8]");
  REQUIRE_ERROR(rotary(filled({6, 8}), by(4), positions), "x [6, 8]");
  REQUIRE_ERROR(rotary(x, by(4), filled({2, 3})), "positions f32 [2, 3]");
  REQUIRE_ERROR(rotary(x, by(4), positions.reshape({3, 2})), "positions i32 [3, 2]");
  REQUIRE_ERROR(rotary(x, by(4), {}), "positions undefined");
  REQUIRE_ERROR(scale_linearly({1}, 0), "linear scaling by 0");
  REQUIRE_ERROR(scale_as_llama3({1}, {.factor = 0}), "factor 0");
  REQUIRE_ERROR(scale_as_llama3({1}, {.low_freq_factor = 4}), "low_freq_factor 4");
}

}  // namespace accrue::test
