#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/inside.h"
#include "core/tensor.h"

namespace accrue::test {

using Values = std::vector<double>;

// One op of the library, as the tests see it. check_op() derives every test from this row.
struct Op {
  std::string name;
  // The floating inputs. Labels, indices and options are made inside `run`, on the device of
  // inputs[0].
  std::vector<Shape> inputs;
  std::function<Tensor(const std::vector<Tensor>& inputs)> run;
  // The formula of run(), written plainly in double; the result is flattened.
  std::function<Values(const std::vector<Values>& inputs)> reference;
  // The number of roundings on the longest path from an input to an output: the terms of the
  // longest sum plus the operations on each term. The float32 result may differ from the reference
  // by depth * 2^-24 * max(1, largest |reference|).
  double depth = 8;
  // Inputs are uniform in [low, high) and kept at least `gap` away from zero, where relu and its
  // like have no derivative.
  double low = -1, high = 1, gap = 0;
  // The number of results that are rounded to the inputs' dtype one after the other: more than 1 if
  // `run` is several ops.
  double roundings = 1;
  // The inputs that are parameters: float32 with a 16-bit copy if the other inputs are 16-bit.
  std::vector<size_t> parameters = {};
  // False for ops without a derivative where two inputs are equal, because 16-bit inputs often are.
  bool in_16_bits = true;
};

// Checks, for one op on the device under test:
//   1. forward in float32 and float64 against the reference (on cuda this bounds the distance from
//      the cpu's result, too: both are within one bound of one reference);
//   2. the gradient of every input, in float64, by central differences of the reference;
//   3. beta 0: a target full of NaN is overwritten completely;
//   4. beta 1: a target preset to 9 holds 9 + gradient;
//   5. the same when inputs are intermediate results, where backwards may write over dy and
//      in-place ops may write over x;
//   6. float32 gradients against the float64 ones;
//   7. nothing is written around the leaves and their gradients, which are slices of larger
//      buffers, nor over the leaves;
//   8. every order of the threads (tests/support/device.h) gives the same bits;
//   9. the device's meta twin charges the ledger with the same peak, and nothing is left on it
//      afterwards;
//  10. all of it again in float16 and bfloat16, on inputs that these types hold exactly: results
//      are within a few of their roundings, because everything between is computed in float32;
//  11. for operands that are wrong in one way each: the device's meta twin refuses exactly the
//      operands that the op refuses on the device.
// Where tests are reduced(), it leaves out the targets and orders that repeat others, and compares
// gradients in 16 bits with the op's own in float64 instead of differences of the reference.
// op_failure() returns the first failure and its place; nothing if all checks pass.
std::optional<std::string> op_failure(const Op& op);
void check_op(const Op& op);

// Labels or indices for an op's run(), on the device of `like`.
Tensor indices(const std::vector<int32_t>& values, const Tensor& like);

// Ones in float32, on the device under test.
Tensor ones(const Shape& shape);

// Uniform values in [-most, most). float32 holds them exactly if `most` is a power of two.
Values random_values(const Shape& shape, uint64_t seed, float most = 1);
// The values rounded to the dtype, on the device under test.
Tensor tensor_with(const Values& values, const Shape& shape, DType dtype);

// Calls backward() as if the loss were the sum of y.
void backward_of_sum(const Tensor& y);
// Calls backward() from this gradient of y.
void backward_from(const Tensor& y, const Values& dy);

}  // namespace accrue::test
