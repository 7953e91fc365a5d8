#pragma once

#include <array>

#include "tests/support/catch.h"
#include "tests/support/op_table.h"

namespace accrue::test {

// For y = op(a, b, c) with inputs of these shapes: checks that the gradients of any one or two
// inputs, when only those are wanted, have the same bits as when all three are wanted.
template <class F>
void check_wanted_gradients(const std::array<Shape, 3>& shapes, F op) {
  const auto gradients = [&](int wanted) {
    std::array<Tensor, 3> in;
    for (size_t i = 0; i < 3; ++i) {
      in[i] = tensor_with(random_values(shapes[i], i), shapes[i], DType::f64);
      if (wanted >> i & 1) in[i] = require_grad(in[i]);
    }
    backward_of_sum(op(in[0], in[1], in[2]));
    std::array<Values, 3> found;
    for (size_t i = 0; i < 3; ++i)
      if (wanted >> i & 1) found[i] = to_doubles(grad(in[i]));
    return found;
  };
  const auto all = gradients(7);
  for (int wanted = 1; wanted < 7; ++wanted) {
    const auto some = gradients(wanted);
    for (size_t i = 0; i < 3; ++i)
      if (wanted >> i & 1) REQUIRE(some[i] == all[i]);
  }
}

}  // namespace accrue::test
