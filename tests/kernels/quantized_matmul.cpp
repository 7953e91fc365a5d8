// Ops with a quantized weight, compared with the same ops of the widened weight in double.

#include "kernels/quantized_matmul.h"

#include <cmath>
#include <optional>

#include "core/autograd.h"
#include "core/ledger.h"
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

constexpr DType quantized_types[]{DType::q4_0, DType::q4_1, DType::q5_0, DType::q5_1,
                                  DType::q8_0, DType::q4_k, DType::q6_k};

struct QuantizedWeight {
  Tensor blocks;  // [R, C], on the device under test
  Values values;
};

// Blocks of random bits with realistic scales: `d`, or below 1/16, which makes elements at most
// about 1.
QuantizedWeight quantized_weight(DType type, int64_t R, int64_t C, uint64_t seed,
                                 std::optional<float> d = {}) {
  RandomStream random(seed);
  const Tensor host = Tensor::empty({R, C}, type, Device::cpu);
  auto* const bytes = static_cast<uint8_t*>(host.view().data);
  for (size_t i = 0; i < host.bytes(); ++i)
    bytes[i] = static_cast<uint8_t>(random.uniform(0, 255.99f));
  Values values;
  const auto scale = [&] { return Half(d ? *d : random.uniform(0.001f, 0.0625f)); };
  dispatch_blocks(type, [&]<class Block>() {
    auto* const blocks = reinterpret_cast<Block*>(bytes);
    for (int64_t b = 0; b < R * C / elements_in<Block>; ++b) {
      if constexpr (elements_in<Block> == 1) blocks[b] = Block(random.uniform(-1, 1));
      if constexpr (requires { blocks[b].d; }) blocks[b].d = scale();
      if constexpr (requires { blocks[b].m; }) blocks[b].m = scale();
      // These types have additional scales of 6 or 8 bits.
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

// Calls backward() from this gradient of y.
void backward_by(Tensor y, const Tensor& dy) {
  Tensor loss = Tensor::full({}, 1, wide(dy.dtype()), dy.device());
  record("sum", loss, {Edge(y)}, [edge = Edge(y), dy](Tensor&) {
    claim_grad(edge);
    edge.variable()->grad.copy_from(dy);
  });
  y.reset();
  backward(loss);
}

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

// Few and many rows, and on the cpu weights of several slabs; the last slab is short.
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
        const Tensor wide = tensor_with(w.values, {R, C}, DType::f64);
        for (const auto& [biased, activation] : {std::pair(true, Activation::none),
                                                 {true, Activation::tanh},
                                                 {false, Activation::none}}) {
          const auto run = [&, biased = biased, activation = activation](const Tensor& weight,
                                                                         DType dtype) {
            const Tensor leaf = require_grad(tensor_with(x, {N, in}, dtype));
            const Tensor bias = biased ? tensor_with(b, {out}, dtype) : Tensor();
            return differentiate(linear(leaf, weight, bias, activation, op), leaf);
          };
          INFO(name(type) << " [" << R << ", " << C << "], " << N << " rows");
          const Results expected = run(wide, DType::f64);
          // The number of products in the longest sum, and the roundings of a term.
          const double depth = double(std::max(R, C)) + 8;
          require_close(run(w.blocks, DType::f64), expected, depth * 0x1p-53);
          require_close(run(w.blocks, DType::f32), expected, depth * 0x1p-24);
        }
      }
}

// Five heads of 14 rows; one weight is in blocks, and the other has the dtype of x.
TEST_CASE("a product by a quantized weight finds rows that lie in pairs", "[ops]") {
  constexpr int64_t N = 3, C = 256, heads = 5, half = 7, R = heads * 2 * half;
  for (const DType type : {DType::q8_0, DType::f32}) {
    const QuantizedWeight w = quantized_weight(type, R, C, 1);
    Values ordered;
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t s = 0; s < 2; ++s)
        for (int64_t j = 0; j < half; ++j) {
          const auto row = w.values.begin() + ((h * half + j) * 2 + s) * C;
          ordered.insert(ordered.end(), row, row + C);
        }
    const auto run = [&](const Tensor& weight, DType dtype, Transpose op) {
      const Shape shape{N, op == Transpose::yes ? C : R};
      const Tensor leaf = require_grad(tensor_with(random_values(shape, 2), shape, dtype));
      return differentiate(linear(leaf, weight, {}, Activation::none, op), leaf);
    };
    for (const Transpose op : {Transpose::yes, Transpose::no})
      require_close(run(w.blocks.reshape({heads, half, 2, C}), DType::f32, op),
                    run(tensor_with(ordered, {R, C}, DType::f64), DType::f64, op),
                    (C + 8) * 0x1p-24);
  }
  const Tensor w = require_grad(Tensor::full({heads, half, 2, C}, 1, DType::f32, test_device()));
  REQUIRE_ERROR(linear(ones({1, C}), w, {}), "wants no gradient");
}

TEST_CASE("a product in 16 bits by a quantized weight", "[ops]") {
  const QuantizedWeight w = quantized_weight(DType::q4_1, 70, 256, 1);
  const Values x = random_values({5, 256}, 2);
  const auto run = [&](const Tensor& weight, DType dtype) {
    const Tensor leaf = require_grad(tensor_with(x, {5, 256}, dtype));
    const Tensor y = linear(leaf, weight, {});
    Results results{to_doubles(y), {}};
    backward_of_sum(y);
    results.dx = to_doubles(grad(leaf));
    return results;
  };
  const Results expected = run(tensor_with(w.values, {70, 256}, DType::f64), DType::f64);
  for (const auto& [dtype, unit] : {std::pair(DType::f16, 0x1p-11), {DType::bf16, 0x1p-8}}) {
    // x, w, dy and the result are rounded; x, w and dy in each of 256 terms.
    require_close(run(w.blocks, dtype), expected, 4 * 16 * unit);
  }
}

// The product with the identity is w itself. Rows of 70 numbers do not divide into vectors.
TEST_CASE("a product by the identity is the widened weight, rounded once", "[ops]") {
  constexpr int64_t heads = 3, half = 2, R = heads * 2 * half;
  Values identity(R * R);
  for (size_t r = 0; r < R; ++r) identity[r * R + r] = 1;
  std::vector<std::pair<DType, int64_t>> weights{
      {DType::f32, 70}, {DType::f32, 72}, {DType::f16, 72}, {DType::bf16, 72}};
  for (const DType type : quantized_types) weights.emplace_back(type, 512);
  for (const auto& [type, C] : weights)
    for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16})
      for (const bool in_pairs : {false, true}) {
        INFO(name(type) << " [" << R << ", " << C << "] in " << name(dtype) << ", " << in_pairs);
        const QuantizedWeight w = quantized_weight(type, R, C, 4);
        const Tensor stored = in_pairs ? w.blocks.reshape({heads, half, 2, C}) : w.blocks;
        const Tensor y = linear(tensor_with(identity, {R, R}, dtype), stored, {}, Activation::none,
                                Transpose::no);
        Values expected;
        for (int64_t r = 0; r < R; ++r) {
          const auto row = w.values.begin() + (in_pairs ? stored_row(r, half) : r) * C;
          expected.insert(expected.end(), row, row + C);
        }
        REQUIRE(to_doubles(y) == to_doubles(tensor_with(expected, {R, C}, dtype)));
      }
}

// The values are multiples of 1/8 and of 1/128, and their sums stay below 2^13: all types hold the
// values, and float32 the sums. So there is only one rounding of the result, also for a sum over
// slabs.
TEST_CASE("a product by several slabs is rounded once, and overwrites its target or adds to it",
          "[ops]") {
  const auto eighths = [](const Shape& shape, uint64_t seed) {
    Values values = random_values(shape, seed);
    for (double& v : values) v = std::round(8 * v) / 8;
    return values;
  };
  const bool on_cuda = plans_for_cuda(test_device());
  using Units = std::vector<std::pair<DType, double>>;
  const auto units = reduced()
                         ? Units{{on_cuda ? DType::f64 : DType::f32, on_cuda ? 0x1p-53 : 0x1p-24},
                                 {DType::bf16, 0x1p-8}}
                         : Units{{DType::f64, 0x1p-53},
                                 {DType::f32, 0x1p-24},
                                 {DType::f16, 0x1p-11},
                                 {DType::bf16, 0x1p-8}};
  for (const auto& [dtype, unit] : units) {
    // On cuda a slab has 32 MiB.
    const auto [N, R, C] = on_cuda ? QuantizedCase{is_16_bit_dtype(dtype) ? 1 : 2,
                                                   (32 << 10) / int64_t(size_of(dtype)) + 64, 1024}
                                   : QuantizedCase{3, 1100, 512};
    const QuantizedWeight w = quantized_weight(DType::q8_0, R, C, 8, 0x1p-7f);
    for (const Transpose op : {Transpose::yes, Transpose::no}) {
      const int64_t in = op == Transpose::yes ? C : R, out = op == Transpose::yes ? R : C;
      const auto weight = [&](int64_t o, int64_t i) {
        return w.values[size_t(op == Transpose::yes ? o * C + i : i * C + o)];
      };
      const Values x = eighths({N, in}, 2), dy = eighths({N, out}, 3);
      Results expected{Values(size_t(N * out)), Values(size_t(N * in))};
      for (int64_t n = 0; n < N; ++n)
        for (int64_t o = 0; o < out; ++o)
          for (int64_t i = 0; i < in; ++i) {
            expected.y[size_t(n * out + o)] += x[size_t(n * in + i)] * weight(o, i);
            expected.dx[size_t(n * in + i)] += dy[size_t(n * out + o)] * weight(o, i);
          }
      for (const bool adds : {false, true}) {
        // Each dtype writes the results of one orientation and adds the results of the other.
        if (reduced() && adds == ((op == Transpose::yes) == is_16_bit_dtype(dtype))) continue;
        INFO(name(dtype) << (adds ? ", added" : ", written")
                         << (op == Transpose::yes ? ", T" : ""));
        for (const Transpose either : {Transpose::yes, Transpose::no}) {
          const Slab most = largest_slab(w.blocks.view(), either, dtype);
          REQUIRE(most.rows * most.columns < R * C);
        }
        const Tensor leaf = require_grad(tensor_with(x, {N, in}, dtype));
        leaf.variable()->grad = Tensor::full({N, in}, adds ? 0.5 : NAN, dtype, test_device());
        leaf.variable()->fresh = !adds;
        const Tensor y = linear(leaf, w.blocks, {}, Activation::none, op);
        const Values found = to_doubles(y);
        backward_by(y, tensor_with(dy, {N, out}, dtype));
        const Values dx = to_doubles(grad(leaf));
        const auto bound = [&](double value) { return std::abs(value) * unit; };
        bool is_close = true;
        for (size_t i = 0; i < found.size(); ++i)
          is_close &= std::abs(found[i] - expected.y[i]) <= bound(expected.y[i]);
        REQUIRE(is_close);
        // On cuda a bias is added to the rounded product.
        const bool biased = !is_16_bit_dtype(dtype);
        const Values term = eighths({N, out}, 4), bias = eighths({out}, 5);
        const Tensor b = biased ? tensor_with(bias, {out}, dtype) : Tensor();
        for (const bool keeps_a : {false, true}) {
          Tensor a = tensor_with(term, {N, out}, dtype);
          const Tensor kept = keeps_a ? a : Tensor();
          const Values sum = to_doubles(add_linear(std::move(a), leaf, w.blocks, b, op));
          for (size_t i = 0; i < sum.size(); ++i) {
            const double there = expected.y[i] + term[i] + (biased ? bias[i % size_t(out)] : 0);
            is_close &= std::abs(sum[i] - there) <= bound(there);
          }
        }
        REQUIRE(is_close);
        for (size_t i = 0; i < dx.size(); ++i) {
          const double there = expected.dx[i] + (adds ? 0.5 : 0);
          is_close &= std::abs(dx[i] - there) <= bound(there);
        }
        REQUIRE(is_close);
      }
    }
  }
}

TEST_CASE("a product by a quantized weight takes the memory that is predicted", "[ops]") {
  const auto [R, C] = plans_for_cuda(test_device()) ? std::pair<int64_t, int64_t>{4160, 1024}
                                                    : std::pair<int64_t, int64_t>{1100, 512};
  const QuantizedWeight w = quantized_weight(DType::q4_0, R, C, 9);
  const auto peak_by = [&](const Tensor& weight, DType dtype) {
    const Device device = weight.device();
    const Tensor x = require_grad(Tensor::full({3, C}, 0.5, dtype, device));
    const size_t before = ledger(device).current().total();
    ledger(device).reset_peak();
    backward_by(linear(x, weight, {}), Tensor::full({3, R}, 1, dtype, device));
    return ledger(device).peak().total() - before;
  };
  const Tensor on_twin =
      Tensor::empty({R, C}, DType::q4_0, meta_of(test_device()), Category::parameters);
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
    INFO(name(dtype));
    const size_t measured = peak_by(w.blocks, dtype);
    REQUIRE(measured == peak_by(on_twin, dtype));
    REQUIRE(measured > size_t(widened_bytes(w.blocks.view(), dtype)));
    if (!plans_for_cuda(test_device())) REQUIRE(measured < size_t(R * C) * size_of(dtype));
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
