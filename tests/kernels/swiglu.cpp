#include "kernels/swiglu.h"

#include <cmath>

#include "core/autograd.h"
#include "core/ledger.h"
#include "kernels/arithmetic.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"
#include "tests/support/op_table.h"

namespace accrue::test {
namespace {

Values plain_swiglu(const Values& gate, const Values& up) {
  Values y;
  for (size_t i = 0; i < gate.size(); ++i) y.push_back(gate[i] / (1 + std::exp(-gate[i])) * up[i]);
  return y;
}

}  // namespace

TEST_CASE("swiglu", "[ops]") {
  check_op({.name = "swiglu",
            .inputs = {{3, 2, 7}, {3, 2, 7}},
            .run = [](const auto& in) { return swiglu(in[0], in[1]); },
            .reference = [](const auto& in) { return plain_swiglu(in[0], in[1]); },
            .low = -3,
            .high = 3});
  check_op({.name = "swiglu of one tensor",
            .inputs = {{2, 5}},
            .run = [](const auto& in) { return swiglu(in[0], in[0]); },
            .reference = [](const auto& in) { return plain_swiglu(in[0], in[0]); },
            .low = -3,
            .high = 3,
            .roundings = 2});
  // More elements than a tile has; the second input is constant.
  const Values up(700, 0.5);
  check_op({.name = "swiglu by a constant",
            .inputs = {{700}},
            .run =
                [&](const auto& in) {
                  return swiglu(in[0], Tensor::full({700}, 0.5, in[0].dtype(), in[0].device()));
                },
            .reference = [&](const auto& in) { return plain_swiglu(in[0], up); }});
}

// Backward allocates nothing but dy and a few numbers.
TEST_CASE("swiglu's gradients go over its operands", "[ops]") {
  const Tensor a = require_grad(ones({1024})), b = require_grad(ones({1024}));
  size_t allocated = 0;
  for (int repeat = 0; repeat < 2; ++repeat) {  // the first allocates the leaves' gradients
    const Tensor y = swiglu(scale(a, 2), scale(b, 3));
    Ledger& account = ledger(test_device());
    const size_t before = account.current()[Category::activations];
    account.reset_peak();
    backward_of_sum(y);
    allocated = account.peak()[Category::activations] - before;
  }
  REQUIRE(allocated < 2 * a.bytes());
}

TEST_CASE("swiglu refuses operands that do not agree", "[ops]") {
  const MetaScope on(GENERATE(false, true));
  REQUIRE_ERROR(swiglu(ones({2, 3}), ones({3, 2})), "gate [2, 3] and up [3, 2]");
  REQUIRE_ERROR(swiglu(ones({2}), Tensor::full({2}, 1, DType::f64, test_device())),
                "[swiglu] operands of f32 [2] and f64 [2]");
  REQUIRE_ERROR(swiglu(ones({2}), {}), "[swiglu] an operand is undefined");
}

}  // namespace accrue::test
