// Ops whose weight is quantized, against the same ops of the widened weight in double.

#include "kernels/quantized_matmul.h"

#include "core/autograd.h"
#include "core/random.h"
#include "kernels/embedding.h"
#include "kernels/judged.h"
#include "kernels/linear.h"
#include "kernels/linear_cross_entropy.h"
#include "kernels/quantized_blocks.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"
#include "tests/support/op_table.h"

namespace accrue::test {
namespace {

constexpr DType quantized_types[]{DType::q4_0, DType::q4_1, DType::q8_0, DType::q4_k, DType::q6_k};

struct QuantizedWeight {
  Tensor blocks;  // [R, C], on the device under test
  Values values;
};

// Blocks of random bits, but for their scales, which are those of weights: below 1/16, so that
// elements are at most about 1.
QuantizedWeight quantized_weight(DType type, int64_t R, int64_t C, uint64_t seed) {
  RandomStream random(seed);
  const Tensor host = Tensor::empty({R, C}, type, Device::cpu);
  auto* const bytes = static_cast<uint8_t*>(host.view().data);
  for (size_t i = 0; i < host.bytes(); ++i)
    bytes[i] = static_cast<uint8_t>(random.uniform(0, 255.99f));
  Values values;
  const auto scale = [&] { return Half(random.uniform(0.001f, 0.0625f)); };
  dispatch_blocks(type, [&]<class Block>() {
    auto* const blocks = reinterpret_cast<Block*>(bytes);
    for (int64_t b = 0; b < R * C / elements_in<Block>; ++b) {
      if constexpr (requires { blocks[b].d; }) blocks[b].d = scale();
      if constexpr (requires { blocks[b].m; }) blocks[b].m = scale();
      // Their own scales have 6 and 8 bits.
      if constexpr (requires { blocks[b].scales; }) blocks[b].d = Half(float(scale()) / 64);
      if constexpr (requires { blocks[b].dmin; }) blocks[b].dmin = Half(float(scale()) / 64);
      double widened[elements_in<Block>];
      widen(blocks[b], widened);
      values.insert(values.end(), std::begin(widened), std::end(widened));
    }
  });
  return {host.to(test_device(), Category::parameters), values};
}

double largest_or_one(const Values& values) {
  double largest = 1;
  for (const double v : values) largest = std::max(largest, std::abs(v));
  return largest;
}

struct Results {
  Values y, dx;
};

Results differentiate(const Tensor& y, const Tensor& x) {
  Results results{to_doubles(y), {}};
  backward_from(y, random_values(y.shape(), 9));
  results.dx = to_doubles(grad(x));
  return results;
}

void require_close(const Results& found, const Results& expected, double unit) {
  REQUIRE(largest_difference(found.y, expected.y) <= unit * largest_or_one(expected.y));
  REQUIRE(largest_difference(found.dx, expected.dx) <= unit * largest_or_one(expected.dx));
}

// Few rows and many, and weights of several slabs, whose last one is short.
struct QuantizedCase {
  int64_t N, R, C;
};
const std::vector<QuantizedCase>& quantized_cases() {
  static const std::vector<QuantizedCase> all{{3, 70, 256}, {40, 33, 512}, {20, 2100, 256}};
  static const std::vector<QuantizedCase> some{{3, 70, 256}, {20, 33, 512}};
  return reduced() ? some : all;
}

}  // namespace

TEST_CASE("a product by a quantized weight is that by the widened one", "[ops]") {
  for (const DType type : quantized_types)
    for (const auto& [N, R, C] : quantized_cases())
      for (const Transpose op : {Transpose::yes, Transpose::no}) {
        const QuantizedWeight w = quantized_weight(type, R, C, 1);
        const int64_t in = op == Transpose::yes ? C : R, out = op == Transpose::yes ? R : C;
        const Values x = random_values({N, in}, 2), b = random_values({out}, 3);
        const auto run = [&](const Tensor& weight, DType dtype, bool biased) {
          const Tensor leaf = require_grad(tensor_with(x, {N, in}, dtype));
          const Tensor bias = biased ? tensor_with(b, {out}, dtype) : Tensor();
          return differentiate(linear(leaf, weight, bias, Activation::none, op), leaf);
        };
        const Tensor wide = tensor_with(w.values, {R, C}, DType::f64);
        for (const bool biased : {true, false}) {
          if (biased && op == Transpose::no) continue;
          INFO(name(type) << " [" << R << ", " << C << "], " << N << " rows");
          const Results expected = run(wide, DType::f64, biased);
          // A sum of so many products, and the roundings of its terms.
          const double depth = double(std::max(R, C)) + 8;
          require_close(run(w.blocks, DType::f64, biased), expected, depth * 0x1p-53);
          require_close(run(w.blocks, DType::f32, biased), expected, depth * 0x1p-24);
        }
      }
}

TEST_CASE("a product in 16 bits by a quantized weight is rounded once", "[ops]") {
  const QuantizedWeight w = quantized_weight(DType::q4_1, 70, 256, 1);
  const Values x = random_values({5, 256}, 2);
  const auto run = [&](const Tensor& weight, DType dtype) {
    Tensor leaf = Tensor::empty({5, 256}, dtype, Device::cpu);
    dispatch_floating(dtype, [&]<class T>() {
      for (size_t i = 0; i < x.size(); ++i) leaf.span<T>()[i] = T(static_cast<Wide<T>>(x[i]));
    });
    leaf = require_grad(leaf.to(test_device()));
    const Tensor y = linear(leaf, weight, {});
    Results results{to_doubles(y), {}};
    backward_of_sum(y);
    results.dx = to_doubles(grad(leaf));
    return results;
  };
  const Results expected = run(tensor_with(w.values, {70, 256}, DType::f64), DType::f64);
  for (const auto& [dtype, unit] : {std::pair(DType::f16, 0x1p-11), {DType::bf16, 0x1p-8}}) {
    // x, w, dy and the result are rounded, the first three in each of 256 terms.
    require_close(run(w.blocks, dtype), expected, 4 * 16 * unit);
  }
}

TEST_CASE("rows of a quantized table are widened", "[ops]") {
  const std::vector<int32_t> rows{4, 0, 4, 6};
  for (const DType type : quantized_types)
    for (const DType dtype : {DType::f32, DType::f64}) {
      const QuantizedWeight w = quantized_weight(type, 7, 512, 5);
      const Tensor y = embedding(w.blocks, indices(rows, w.blocks), dtype);
      REQUIRE(y.dtype() == dtype);
      Values expected;
      for (const int32_t row : rows)
        expected.insert(expected.end(), w.values.begin() + row * 512,
                        w.values.begin() + (row + 1) * 512);
      REQUIRE(to_doubles(y) == expected);
    }
}

TEST_CASE("linear_cross_entropy of a quantized head", "[ops]") {
  constexpr int64_t N = 21, V = 40, E = 256;
  const QuantizedWeight w = quantized_weight(DType::q8_0, V, E, 6);
  const Values x = random_values({N, E}, 2);
  std::vector<int32_t> labels;
  for (int32_t i = 0; i < N; ++i) labels.push_back(i % 5 == 3 ? not_judged : i);
  const auto run = [&](const Tensor& weight, DType dtype, bool judges) {
    const Tensor leaf = require_grad(tensor_with(x, {N, E}, dtype));
    const Tensor all = indices(labels, leaf).reshape({1, N});
    const Tensor judged = judged_weight(all);
    Tensor counted = all;
    if (!judges) {
      std::vector<int32_t> some = labels;
      for (int32_t& label : some) label = std::max(label, 0);
      counted = indices(some, leaf).reshape({1, N});
    }
    const Tensor loss = linear_cross_entropy(leaf, weight, counted, judges ? judged : Tensor(), 16);
    Results results{to_doubles(loss), {}};
    backward(loss);
    results.dx = to_doubles(grad(leaf));
    return results;
  };
  const Tensor wide = tensor_with(w.values, {V, E}, DType::f64);
  for (const bool judges : {true, false}) {
    const Results expected = run(wide, DType::f64, judges);
    require_close(run(w.blocks, DType::f64, judges), expected, (E + V) * 0x1p-53);
    require_close(run(w.blocks, DType::f32, judges), expected, (E + V) * 0x1p-24);
  }
}

TEST_CASE("a weight that is stored otherwise wants no gradient", "[ops]") {
  const Tensor half = require_grad(Tensor::full({2, 64}, 1, DType::f16, test_device()));
  REQUIRE_ERROR(linear(ones({1, 64}), half, {}), "wants no gradient");
  const Tensor w = require_grad(quantized_weight(DType::q4_0, 2, 64, 7).blocks);
  REQUIRE_ERROR(linear(ones({1, 64}), w, {}), "wants no gradient");
  REQUIRE_ERROR(embedding(w, indices({0}, w), DType::f32), "wants no gradient");
  REQUIRE_ERROR(linear_cross_entropy(ones({1, 64}), w, indices({0}, w)), "wants no gradient");
}

}  // namespace accrue::test
