// Tests of the op table itself: it must report each of some kernels with planted faults. They fail
// if a check of the op table gets weaker.

#include "tests/faults/faults.h"

#include "tests/support/catch.h"
#include "tests/support/device.h"
#include "tests/support/files.h"
#include "tests/support/op_table.h"
#include "tests/support/skipped.h"

namespace accrue::test {
namespace {

Tensor total(const Tensor& x, Fault fault) {
  check(x.dtype() == DType::f32 || x.dtype() == DType::f64, "[total] x is {}", name(x.dtype()));
  Tensor y = Tensor::empty({}, x.dtype(), x.device());
  if (x.device() == Device::cuda) total_kernel(y.view(), x.view(), fault);
  const Edge edge = x;
  record("total", y, {edge}, [edge, fault](Tensor& dy) {
    if (auto dx = claim_grad(edge); dx && dy.device() == Device::cuda)
      total_backward_kernel(*dx, dy.view(), fault);
  });
  return y;
}

// The op table's report on total() with this fault; empty if it finds none.
std::string verdict(Fault fault) {
  constexpr int64_t size = 300;
  return op_failure({.name = "total",
                     .inputs = {{size}},
                     .run = [=](const auto& in) { return total(in[0], fault); },
                     .reference =
                         [](const auto& in) {
                           double sum = 0;
                           for (const double x : in[0]) sum += x;
                           return Values{sum};
                         },
                     .depth = size,
                     .in_16_bits = false})
      .value_or("");
}

}  // namespace

TEST_CASE("the op table sees planted faults", "[faults]") {
  if (test_device() != Device::cuda) SKIP_LOUDLY("planted faults need --device cuda");
  REQUIRE(verdict(Fault::none).empty());
  REQUIRE_THAT(verdict(Fault::overrun), ContainsSubstring("gradient of input 0\nwritten beyond"));
  REQUIRE_THAT(verdict(Fault::overwritten),
               ContainsSubstring("target preset, f64\ngradient of input 0\nat"));
  // The second time, the shared memory still holds the values of the first.
  for (int repeat = 0; repeat < 2 && on_runner(); ++repeat)
    REQUIRE_THAT(verdict(Fault::missing_barrier),
                 ContainsSubstring("leaves, target NaN, f64\nforward\nat"));
}

}  // namespace accrue::test
