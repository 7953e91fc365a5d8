// `accrue bench kernels`: every rung computes the right result, and the checker sees a rung that
// does not.

#include "accumulate/ladder/ladders.h"

#include <limits>

#include "accumulate/ladder/tensor_ops.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"

namespace accrue::test {
namespace {

// A weight and a bias, each with a gap behind it.
Parameters small_layout() {
  return Parameters({{"weight", {33, 17}}, {"bias", {33}}}, {}, DType::f32, Device::meta);
}

std::vector<ladder::Result> check_all(const ladder::Arrays& arrays,
                                      const std::vector<ladder::Rung>& rungs) {
  return ladder::check_rungs(rungs, [&] { arrays.reset(); });
}

}  // namespace

TEST_CASE("every rung computes the same as its reference", "[ladder]") {
  const ladder::Arrays arrays(small_layout(), test_device());
  for (int order = 0; order < thread_orders(); ++order) {
    set_thread_order(order);
    for (const ladder::Result& result : check_all(arrays, ladder::all_ladders(arrays, 5))) {
      INFO(result.rung.ladder << ": " << result.rung.name << " is off by " << result.error);
      REQUIRE(result.ok());
    }
  }
}

TEST_CASE("a wrong rung is found and named", "[ladder]") {
  const ladder::Arrays arrays(small_layout(), test_device());
  const std::vector<ladder::Rung> right = ladder::accumulate_ladder(arrays);
  REQUIRE_NOTHROW(ladder::require_ok(check_all(arrays, right)));

  const auto refused = [&](auto&& plant) {
    std::vector<ladder::Rung> rungs = right;
    plant(rungs[3]);
    REQUIRE_ERROR(ladder::require_ok(check_all(arrays, rungs)), "'flat (shipped)' of accumulate");
  };
  // Four mistakes: adding twice, not adding at all, losing one element, and writing NaN, for which
  // every comparison is false.
  refused([&](ladder::Rung& rung) { rung.run = [run = rung.run] { run(), run(); }; });
  refused([&](ladder::Rung& rung) { rung.run = [] {}; });
  refused([&](ladder::Rung& rung) {
    rung.run = [run = rung.run, &arrays] {
      run();
      arrays.sum.values.slice(3, 4).copy_from(arrays.sum.initial.slice(3, 4));
    };
  });
  refused([&](ladder::Rung& rung) {
    rung.run = [&arrays] { arrays.sum.values.fill(std::numeric_limits<double>::quiet_NaN()); };
  });
}

TEST_CASE("find_nonfinite sees every element", "[ladder]") {
  constexpr float inf = std::numeric_limits<float>::infinity();
  for (const int64_t n : {1, 3, 4, 1023}) {
    for (const int64_t begin : {0, 1}) {  // aligned, and not
      for (const float bad : {0.0f, inf, -inf, std::numeric_limits<float>::quiet_NaN()}) {
        for (const int64_t at : {int64_t{0}, n / 2, n - 1}) {
          std::vector<float> values(static_cast<size_t>(begin + n), 1e38f);
          values[static_cast<size_t>(begin + at)] = bad;
          const Tensor g = Tensor::from(values, {begin + n}, test_device()).slice(begin, begin + n);
          const Tensor found = Tensor::full({1}, 0, DType::f32, test_device());
          ladder::find_nonfinite(found.view(), g.view());
          REQUIRE(found.item() == (bad == 0 ? 0 : 1));
        }
      }
    }
  }
}

}  // namespace accrue::test
