#include "kernels/pad.h"

#include <algorithm>

#include "tests/support/catch.h"
#include "tests/support/device.h"
#include "tests/support/moved_op.h"
#include "tests/support/op_table.h"

namespace accrue::test {
namespace {

Shape padded(const Shape& x, const Pads& pads) {
  Shape y = x;
  const int first = x.rank() - static_cast<int>(pads.size());
  for (size_t k = 0; k < pads.size(); ++k) {
    const int d = first + static_cast<int>(k);
    y = y.with(d, x[d] + pads[k].first + pads[k].second);
  }
  return y;
}

Op pad_op(const Shape& x, const Pads& pads, double value) {
  const size_t first = static_cast<size_t>(x.rank()) - pads.size();
  return moved_op(
      "pad", x, padded(x, pads), [=](const Tensor& in) { return pad(in, pads, value); },
      [=](Place i) {
        for (size_t k = 0; k < pads.size(); ++k) {
          int64_t& at = i[first + k];
          at -= pads[k].first;
          if (at < 0 || at >= x[static_cast<int>(first + k)]) return Place();
        }
        return i;
      },
      value);
}

Op border_op(const Shape& x, const Pads& pads, Border border) {
  const size_t first = static_cast<size_t>(x.rank()) - pads.size();
  const Shape y = padded(x, pads);
  double copies = 1;  // of an element, at most
  for (const auto& [before, after] : pads) copies *= double(1 + before + after);
  return moved_op(
      fmt::format("pad with border {}", static_cast<int>(border)), x, y,
      [=](const Tensor& in) { return pad(in, pads, border); },
      [=](Place i) {
        for (size_t k = 0; k < pads.size(); ++k) {
          int64_t& at = i[first + k];
          const int64_t n = x[static_cast<int>(first + k)];
          at -= pads[k].first;
          if (border == Border::edge) at = std::clamp<int64_t>(at, 0, n - 1);
          if (border == Border::wrap) at = (at + n) % n;
          if (border == Border::reflect) at = at < 0 ? -at : at < n ? at : 2 * n - 2 - at;
        }
        return i;
      },
      0, copies);
}

}  // namespace

TEST_CASE("pad with a value", "[ops]") {
  check_op(pad_op({2, 3, 4}, {{1, 2}}, 0));
  check_op(pad_op({2, 3, 4}, {{1, 0}, {0, 3}}, 0.5));
  check_op(pad_op({2, 3, 4}, {{0, 1}, {2, 0}, {1, 1}}, -2));
  check_op(pad_op({2, 3, 4}, {{1, 1}, {0, 0}}, 1));
  check_op(pad_op({2, 3, 4}, {{-1, 0}, {1, -2}}, 1));
  check_op(pad_op({2, 5, 4}, {{-1, -2}, {0, 0}}, 1));
  check_op(pad_op({2, 3, 4}, {{0, 0}}, 1));
  check_op(pad_op({2, 0}, {{1, 0}, {1, 1}}, 3));
  check_op(pad_op({2, 3}, {{-2, 0}, {1, 1}}, 3));
  check_op(pad_op({1, 1, 2, 1, 2, 1, 2, 1},
                  {{0, 1}, {1, 0}, {0, 0}, {1, 1}, {0, 1}, {0, 0}, {1, 0}, {1, 1}}, 2));
}

TEST_CASE("pad with a border of x's own elements", "[ops]") {
  for (const Border border : {Border::edge, Border::reflect, Border::wrap}) {
    check_op(border_op({1, 2, 3, 4}, {{1, 2}, {3, 1}}, border));
    check_op(border_op({2, 4, 3}, {{3, 3}, {0, 0}}, border));
    check_op(border_op({3, 2, 2}, {{2, 1}, {1, 1}, {0, 1}}, border));
    check_op(border_op({6}, {{0, 5}}, border));
    check_op(border_op({2, 3, 1, 4}, {{1, 0}, {0, 0}, {0, 0}}, border));
    check_op(border_op({0, 3}, {{1, 1}}, border));
    check_op(border_op({2, 3}, {{0, 0}}, border));
  }
  check_op(border_op({2, 1}, {{4, 3}}, Border::edge));
  check_op(border_op({1, 2}, {{1, 1}, {2, 0}}, Border::wrap));
}

TEST_CASE("a border equals PyTorch's of the same meaning", "[ops]") {
  // torch.nn.functional.pad(torch.arange(4.)[None, None], (3, 2), mode)[0, 0]
  const Tensor x = numbered({1, 1, 4});
  REQUIRE(to_doubles(pad(x, {{3, 2}}, Border::edge)) == Values{0, 0, 0, 0, 1, 2, 3, 3, 3});
  REQUIRE(to_doubles(pad(x, {{3, 2}}, Border::reflect)) == Values{3, 2, 1, 0, 1, 2, 3, 2, 1});
  REQUIRE(to_doubles(pad(x, {{3, 2}}, Border::wrap)) == Values{1, 2, 3, 0, 1, 2, 3, 0, 1});
}

TEST_CASE("pad refuses what does not fit", "[ops]") {
  const MetaScope on(GENERATE(false, true));
  const Tensor x = ones({2, 3, 4});
  REQUIRE_ERROR(pad(x, {{1, 1}, {1, 1}, {1, 1}, {1, 1}}), "numbers for 4 dimensions");
  REQUIRE_ERROR(pad(x, {{-3, -2}}), "[pad] dimension 2 of [2, 3, 4] with -3 before and -2 after");
  REQUIRE_ERROR(pad(x, {{4, 0}}, Border::reflect), "less than its size");
  REQUIRE_ERROR(pad(x, {{0, 5}}, Border::wrap), "at most its size");
  REQUIRE_ERROR(pad(x, {{-1, 0}}, Border::edge), "expected numbers from 0 on");
  REQUIRE_ERROR(pad(ones({2, 0}), {{1, 0}}, Border::edge), "an element to repeat");
  REQUIRE_ERROR(pad(Tensor(), {{1, 1}}), "[pad] x is undefined");
}

}  // namespace accrue::test
