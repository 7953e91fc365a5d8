#include "kernels/embedding.h"

#include <cmath>

#include "core/autograd.h"
#include "kernels/one_hot.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"
#include "tests/support/op_table.h"

namespace accrue::test {

TEST_CASE("embedding", "[ops]") {
  constexpr size_t V = 6, D = 3;
  // 4 occurs three times, 1 and 3 never.
  static const std::vector<int32_t> index{4, 0, 4, 5, 2, 4, 0};
  check_op({.name = "embedding",
            .inputs = {{V, D}},
            .run = [](const auto& in) { return embedding(in[0], indices(index, in[0])); },
            .reference =
                [](const auto& in) {
                  Values y;
                  for (const int32_t v : index)
                    for (size_t d = 0; d < D; ++d)
                      y.push_back(in[0][static_cast<size_t>(v) * D + d]);
                  return y;
                },
            .depth = 3,
            .parameters = {0}});
}

TEST_CASE("embedding's gradient writes 0 to unused rows, and adds nothing to them", "[ops]") {
  // Row 1 is unused, or padding.
  for (const bool has_padding : {false, true}) {
    const Tensor w = require_grad(ones({4, 2}));
    const auto run = [&] {
      backward_of_sum(has_padding ? embedding(w, indices({2, 1, 0, 1, 2}, w), {}, 1)
                                  : embedding(w, indices({2, 0, 2}, w)));
      return to_doubles(grad(w));
    };
    REQUIRE(run() == Values{1, 1, 0, 0, 2, 2, 0, 0});
    grad(w).fill(std::nan(""));
    zero_grad(w);
    REQUIRE(run() == Values{1, 1, 0, 0, 2, 2, 0, 0});
    grad(w).fill(9);
    REQUIRE(run() == Values{10, 10, 9, 9, 11, 11, 9, 9});
  }
}

TEST_CASE("embedding refuses what does not fit", "[ops]") {
  const MetaScope on(GENERATE(false, true));
  const Tensor w = ones({4, 2}), flat = ones({4});
  REQUIRE_ERROR(embedding(flat, indices({0}, flat)), "w [4] and index i32 [1]");
  REQUIRE_ERROR(embedding(w, ones({3})), "index f32 [3]");
  REQUIRE_ERROR(embedding(w, Tensor()), "expected w [V, D]");
  REQUIRE_ERROR(embedding(w, indices({0}, w), {}, 4), "padding is 4: expected a row of w [4, 2]");
}

TEST_CASE("one_hot", "[ops]") {
  const Tensor index = indices({2, 0, 3, -1}, ones({1}));
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
    const Tensor y = one_hot(index, 3, dtype);
    REQUIRE(y.shape() == Shape{4, 3});
    REQUIRE(to_doubles(y) == Values{0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0});
  }
  REQUIRE_ERROR(one_hot(ones({2}), 3, DType::f32), "[one_hot] of f32 [2] among 3 classes");
  REQUIRE_ERROR(one_hot(index, 0, DType::f32), "at least 1 class");
}

TEST_CASE("indices out of range are refused, and give NaN where no kernel can throw", "[ops]") {
  const Tensor w = require_grad(ones({4, 2}));
  for (const int32_t bad : {4, -1}) {
    if (test_device() == Device::cpu) {
      REQUIRE_ERROR(embedding(w, indices({0, bad}, w)),
                    fmt::format("index {} at position 1 is outside [0, 4)", bad));
      continue;
    }
    zero_grad(w);
    const Tensor rows = embedding(w, indices({0, bad}, w));
    const Values y = to_doubles(rows);
    for (size_t i = 0; i < y.size(); ++i) REQUIRE(std::isnan(y[i]) == (i >= 2));
    backward_of_sum(rows);
    Values named(8);  // not a list: GCC 12 fills it with ones at -O3
    named[0] = named[1] = 1;
    REQUIRE(to_doubles(grad(w)) == named);
  }
}

}  // namespace accrue::test
