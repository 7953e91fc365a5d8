// Matrix products, and cross_entropy().

#include "kernels/linear.h"

#include <array>
#include <cmath>
#include <numbers>

#include "core/autograd.h"
#include "kernels/arithmetic.h"
#include "kernels/cross_entropy.h"
#include "tests/support/activation.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"
#include "tests/support/op_table.h"

namespace accrue::test {
namespace {

struct LinearSizes {
  size_t N = 5, I = 7, O = 3;
};

Op linear_op(std::string name, Activation activation, bool bias, LinearSizes sizes = {},
             Transpose w_op = Transpose::yes) {
  const auto [N, I, O] = sizes;
  const auto shape = [](auto... size) { return Shape{static_cast<int64_t>(size)...}; };
  const bool rows_are_outputs = w_op == Transpose::yes;
  std::vector<Shape> inputs{shape(N, I), rows_are_outputs ? shape(O, I) : shape(I, O)};
  if (bias) inputs.push_back(shape(O));
  return {.name = std::move(name),
          .inputs = inputs,
          .run =
              [=](const auto& in) {
                return linear(in[0], in[1], bias ? in[2] : Tensor(), activation, w_op);
              },
          .reference =
              [=](const auto& in) {
                Values y(N * O);
                for (size_t n = 0; n < N; ++n)
                  for (size_t o = 0; o < O; ++o) {
                    double sum = bias ? in[2][o] : 0;
                    for (size_t i = 0; i < I; ++i)
                      sum += in[0][n * I + i] * in[1][rows_are_outputs ? o * I + i : i * O + o];
                    y[n * O + o] = activated(activation, sum);
                  }
                return y;
              },
          .depth = static_cast<double>(I + 2),
          .parameters = {1, 2}};
}

Tensor make(const Values& values, const Shape& shape, DType dtype) {
  return dispatch_floating(dtype, [&]<class T>() {
    std::vector<T> elements;
    for (const double value : values) elements.push_back(T(static_cast<float>(value)));
    return Tensor::from(elements, shape, test_device());
  });
}

}  // namespace

TEST_CASE("linear", "[ops]") {
  check_op(linear_op("linear without bias", Activation::none, false));
  for (const Activation activation : all_activations) {
    const std::string fused = fmt::format(" + {}", name(activation));
    check_op(linear_op("linear" + fused, activation, true));
    // With whole vectors and few samples, another kernel computes the weight gradient, in parts of
    // 32 rows.
    check_op(linear_op("few samples" + fused, activation, true, {.N = 3, .I = 48, .O = 37}));
    // The bias gradient of many samples: more rows and columns than a block's tile on cuda.
    check_op(linear_op("many samples" + fused, activation, true, {.N = 67, .I = 3, .O = 33}));
    check_op(linear_op("linear by w [I, O]" + fused, activation, true, {}, Transpose::no));
  }
}

// If relu turned a NaN into 0, nothing would show that the window must be skipped. Few and many
// samples may take different paths.
TEST_CASE("linear's relu lets NaN through", "[ops]") {
  const double nan = std::nan("");
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64})
    for (const int64_t N : {1, 100})
      for (const bool with_bias : {true, false}) {
        CAPTURE(name(dtype), N, with_bias);
        Values ones(static_cast<size_t>(2 * N), 1);
        ones.back() = nan;
        const Tensor x = make(ones, {N, 2}, dtype), w = make({1, 0, -1, 0}, {2, 2}, dtype);
        const Tensor b = with_bias ? make({0, 0}, {2}, dtype) : Tensor();
        const Values y = to_doubles(linear(x, w, b, Activation::relu));
        if (N > 1) REQUIRE(Values{y[0], y[1]} == Values{1, 0});
        REQUIRE((std::isnan(y[y.size() - 2]) && std::isnan(y.back())));
      }
}

// 2049 rounds to 2048 in float16, and 2050 is exact: this reveals a rounded part of the sum.
TEST_CASE("a product of 16-bit matrices is rounded once", "[ops]") {
  const Tensor c = matmul(make({683, 1}, {1, 2}, DType::f16), make({3, 1}, {2, 1}, DType::f16));
  REQUIRE(to_doubles(c) == Values{2050});
}

// 257 rounds to 256 in bfloat16, and 2049 to 2048 in float16. Adding 0.5 afterwards would not
// change either.
TEST_CASE("what is added to a 16-bit matrix is rounded with it", "[ops]") {
  constexpr int64_t K = 1024;
  std::vector<std::pair<int64_t, int64_t>> sizes{{1, 64}, {2, 4096}, {8, 512}, {24, 256}};
  if (!reduced()) sizes.insert(sizes.end(), {{64, 768}, {512, 768}, {1024, 2048}});
  for (const auto& [M, N] : sizes)
    for (const DType dtype : {DType::f16, DType::bf16}) {
      INFO(name(dtype) << " [" << M << ", " << N << "]");
      const bool is_half = dtype == DType::f16;
      Values row(K), w;
      std::fill_n(row.begin(), is_half ? 683 : 257, is_half ? 3 : 1);
      for (int64_t n = 0; n < N; ++n) w.insert(w.end(), row.begin(), row.end());
      const auto full = [&, dtype = dtype](double value, const Shape& shape) {
        return Tensor::full(shape, value, dtype, test_device());
      };
      const Tensor x = full(1, {M, K}), weight = make(w, {N, K}, dtype), a = full(0.5, {M, N});
      const Values once(size_t(M * N), is_half ? 2050 : 258);
      const bool is_rounded_once = to_doubles(add_linear(full(0.5, {M, N}), x, weight)) == once;
      CHECK(is_rounded_once);
      const Tensor half = full(0.25, {M, N}), bias = full(0.25, {N});
      const bool is_so_apart = to_doubles(add_linear(a, x, weight)) == once,
                 is_so_with_bias = to_doubles(add_linear(half, x, weight, bias)) == once;
      CHECK(is_so_apart);
      CHECK(is_so_with_bias);
    }
}

// The scratch depends on the number of multiplications, which is the same for all products of a
// layer, between two limits.
TEST_CASE("the scratch of a matrix product on cuda is known from shapes", "[ops]") {
  const auto peak_of = [](int64_t M, int64_t K, int64_t N) {
    const auto make = [](const Shape& shape) {
      return Tensor::full(shape, 1, DType::f32, Device::meta_cuda);
    };
    Ledger& memory = ledger(Device::meta_cuda);
    memory.reset_peak();
    matmul(make({M, K}), make({K, N}));
    return memory.peak()[Category::workspace];
  };
  REQUIRE(peak_of(32, 784, 512) == 4 << 20);
  REQUIRE(peak_of(256, 784, 512) == 256 * 784 * 512 / 64 * sizeof(float));
  REQUIRE(peak_of(4096, 4096, 4096) == 32 << 20);
}

TEST_CASE("matmul", "[ops]") {
  constexpr size_t M = 4, N = 3, K = 6;
  check_op({.name = "matmul",
            .inputs = {{M, K}, {K, N}},
            .run = [](const auto& in) { return matmul(in[0], in[1]); },
            .reference =
                [](const auto& in) {
                  Values c(M * N);
                  for (size_t m = 0; m < M; ++m)
                    for (size_t n = 0; n < N; ++n)
                      for (size_t k = 0; k < K; ++k)
                        c[m * N + n] += in[0][m * K + k] * in[1][k * N + n];
                  return c;
                },
            .depth = K + 1});
}

TEST_CASE("a product by a weight that wants no gradient does not keep x", "[ops]") {
  const auto keeps_x = [](bool is_frozen) {
    const Tensor leaf = require_grad(Tensor::full({4, 3}, 1, DType::f32, test_device()));
    const Tensor w = require_grad(Tensor::full({2, 3}, 2, DType::f32, test_device()));
    w.variable()->frozen = is_frozen;
    const Tensor x = scale(leaf, 3);
    const Tensor y = linear(x, w, {});
    const bool keeps = !x.sole_owner();
    backward_of_sum(y);
    REQUIRE(to_doubles(grad(leaf)) == Values(12, 12.0));
    return keeps;
  };
  REQUIRE(keeps_x(false));
  REQUIRE_FALSE(keeps_x(true));
}

namespace {

Op linear_then_op(std::string name, const detail::formula::AnyPointwise& f, double (*of)(double),
                  bool bias, LinearSizes sizes, Transpose w_op = Transpose::yes) {
  const Op product = linear_op("", Activation::none, bias, sizes, w_op);
  Op op = product;
  op.name = std::move(name);
  op.run = [=](const auto& in) {
    return linear_then(f, in[0], in[1], bias ? in[2] : Tensor(), w_op);
  };
  op.reference = [=](const auto& in) {
    Values y = product.reference(in);
    for (double& value : y) value = of(value);
    return y;
  };
  op.depth = product.depth + 8;
  op.roundings = 2;
  return op;
}

double gelu_of(double z) { return z * std::erfc(-z / std::sqrt(2.0)) / 2; }
double gelu_tanh_of(double z) {
  return z / 2 * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (z + 0.044715 * z * z * z)));
}
double silu_of(double z) { return z / (1 + std::exp(-z)); }

// y and the gradients of x, w and b of linear_then(), or of the ops that it stands for.
std::array<Values, 4> results_of(bool at_once, const detail::formula::AnyPointwise& f, int64_t N,
                                 int64_t O, DType dtype, bool adds) {
  constexpr int64_t I = 3;
  const auto leaf = [&](const Shape& shape, uint64_t seed) {
    const Tensor x = require_grad(tensor_with(random_values(shape, seed), shape, dtype));
    return x;
  };
  const auto parameter = [&](const Shape& shape, uint64_t seed) {
    const Tensor x = require_grad(tensor_with(random_values(shape, seed), shape, wide(dtype)));
    if (wide(dtype) != dtype)
      x.variable()->copy = tensor_with(random_values(shape, seed), shape, dtype);
    x.variable()->grad = Tensor::full(shape, adds ? 0.5 : NAN, wide(dtype), test_device());
    x.variable()->fresh = !adds;
    return x;
  };
  const Tensor x = leaf({N, I}, 1), w = parameter({O, I}, 2), b = parameter({O}, 3);
  const Tensor y = at_once ? linear_then(f, x, w, b) : pointwise(linear(x, w, b), f);
  const Values at = to_doubles(y);
  backward_from(y, random_values({N, O}, 4));
  return {at, to_doubles(grad(x)), to_doubles(grad(w)), to_doubles(grad(b))};
}

}  // namespace

TEST_CASE("linear_then", "[ops]") {
  using namespace detail::formula;
  check_op(linear_then_op("gelu of linear", Gelu{}, gelu_of, true, {.N = 5, .I = 3, .O = 4}));
  check_op(linear_then_op("silu of linear without bias", Silu{}, silu_of, false,
                          {.N = 3, .I = 4, .O = 2}));
  check_op(linear_then_op("gelu_tanh of linear", GeluTanh{}, gelu_tanh_of, true,
                          {.N = 67, .I = 3, .O = 8}, Transpose::no));
}

// The rows are so many that cuda cuts them for several blocks. 200 columns are whole vectors, 67
// are none.
TEST_CASE("linear_then has the bits of a product and an activation", "[ops]") {
  struct Case {
    int64_t N, O;
  };
  using namespace detail::formula;
  std::vector<DType> types{DType::f32, DType::bf16};
  if (!reduced()) types.insert(types.end(), {DType::f64, DType::f16});
  int order = 0;
  for (const auto& [N, O] : {Case{66, 200}, Case{600, 67}, Case{600, 72}})
    for (const DType dtype : types)
      for (const bool adds : {false, true}) {
        INFO(name(dtype) << " [" << N << ", " << O << "], " << adds);
        set_thread_order(0);
        const auto apart = results_of(false, GeluTanh{}, N, O, dtype, adds);
        set_thread_order(++order % 3);
        REQUIRE(results_of(true, GeluTanh{}, N, O, dtype, adds) == apart);
      }
  set_thread_order(0);
}

TEST_CASE("linear_then lets NaN through, and refuses formulas that keep y", "[ops]") {
  using namespace detail::formula;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    Values values(200, 1);
    values[199] = std::nan("");
    const Tensor x = make(values, {100, 2}, dtype), w = make({1, 0, 0, 1}, {2, 2}, dtype),
                 b = require_grad(make({0, 0}, {2}, wide(dtype)));
    if (wide(dtype) != dtype) b.variable()->copy = make({0, 0}, {2}, dtype);
    const Tensor y = linear_then(GeluTanh{}, x, w, b);
    REQUIRE(std::isnan(to_doubles(y).back()));
    backward_of_sum(y);
    const Values db = to_doubles(grad(b));
    REQUIRE(std::isnan(db[1]));
  }
  const Tensor one = make({1}, {1, 1}, DType::f32);
  REQUIRE_ERROR(linear_then(Relu{}, one, one, {}), "relu keeps y");
}

namespace {

// add_linear() is linear() and an addition: a stands before its inputs.
Op add_linear_op(bool bias, LinearSizes sizes, Transpose w_op = Transpose::yes) {
  const Op product = linear_op("", Activation::none, bias, sizes, w_op);
  Op op = product;
  op.name = fmt::format("add_linear{}", bias ? " with a bias" : "");
  op.inputs.insert(op.inputs.begin(), Shape{int64_t(sizes.N), int64_t(sizes.O)});
  op.run = [=](const auto& in) {
    return add_linear(in[0], in[1], in[2], bias ? in[3] : Tensor(), w_op);
  };
  op.reference = [product](const auto& in) {
    Values y = product.reference(std::vector(in.begin() + 1, in.end()));
    for (size_t i = 0; i < y.size(); ++i) y[i] += in[0][i];
    return y;
  };
  op.depth = product.depth + 1;
  op.parameters = {2, 3};
  if (!bias) op.parameters = {2};
  return op;
}

}  // namespace

TEST_CASE("add_linear", "[ops]") {
  for (const bool bias : {false, true}) {
    check_op(add_linear_op(bias, {.N = 5, .I = 4, .O = 7}));
    check_op(add_linear_op(bias, {.N = 67, .I = 8, .O = 33}, Transpose::no));
  }
  // The result is written over a, which nothing else uses.
  Tensor a = make({1, 2}, {1, 2}, DType::f32);
  const void* const place = a.view().data;
  const Tensor y =
      add_linear(std::move(a), make({3}, {1, 1}, DType::f32), make({1, 10}, {2, 1}, DType::f32));
  REQUIRE(y.view().data == place);
  REQUIRE(to_doubles(y) == Values{4, 32});
}

// A residual block's input may be both operands: its gradient is added to twice.
TEST_CASE("add_linear of one tensor twice", "[ops]") {
  const Tensor x = require_grad(make({1, 2, 3, 4}, {2, 2}, DType::f32));
  const Tensor w = make({1, 10, 100, 1000}, {2, 2}, DType::f32);
  const Tensor y = add_linear(x, x, w);
  REQUIRE(to_doubles(y) == Values{22, 2102, 46, 4304});
  backward_of_sum(y);
  REQUIRE(to_doubles(grad(x)) == Values{102, 1011, 102, 1011});
}

TEST_CASE("add_linear lets NaN through from each operand", "[ops]") {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64})
    for (const int64_t N : {1, 100})
      for (const size_t nan_in : {0, 1, 2, 3})
        for (const bool keeps_a : {false, true}) {
          CAPTURE(name(dtype), N, nan_in, keeps_a);
          const auto operand = [&](size_t which, const Shape& shape) {
            Values values(size_t(shape.numel()), 1);
            if (which == nan_in) values.back() = std::nan("");
            return make(values, shape, dtype);
          };
          Tensor a = operand(0, {N, 2});
          const Tensor kept = keeps_a ? a : Tensor();
          const Tensor x = operand(1, {N, 2}), w = operand(2, {2, 2}), b = operand(3, {2});
          const Values y = to_doubles(add_linear(std::move(a), x, w, b));
          REQUIRE(std::isnan(y.back()));
          if (N > 1) REQUIRE(y[0] == 4);
        }
}

TEST_CASE("cross_entropy", "[ops]") {
  static const std::vector<int32_t> labels{2, 0, 4, 4, 1, 3};
  check_op({.name = "cross_entropy",
            .inputs = {{6, 5}},
            .run = [](const auto& in) { return cross_entropy(in[0], indices(labels, in[0])); },
            .reference =
                [](const auto& in) {
                  double loss = 0;
                  for (size_t n = 0; n < 6; ++n) {
                    double sum = 0;
                    for (size_t c = 0; c < 5; ++c) sum += std::exp(in[0][n * 5 + c]);
                    loss += std::log(sum) - in[0][n * 5 + static_cast<size_t>(labels[n])];
                  }
                  return Values{loss / 6};
                },
            .depth = 16,
            .low = -4,
            .high = 4});
}

TEST_CASE("cross_entropy survives large logits", "[ops]") {
  const Tensor x =
      require_grad(Tensor::from(std::vector<float>{1e4f, -1e4f}, {1, 2}, test_device()));
  const Tensor loss = cross_entropy(x, indices({1}, x));
  REQUIRE(loss.item() == 2e4);
  backward(loss);
  REQUIRE(to_doubles(grad(x)) == Values{1, -1});
}

TEST_CASE("cross_entropy keeps the digits of a small loss", "[ops]") {
  // The logits are `shift` once and `shift` - d C - 1 times. The loss is log(1 + (C - 1) e^-d) if
  // the label is at the maximum, and d more elsewhere.
  struct Case {
    double shift, d;
    size_t C;
  };
  const auto check_as = [&]<class T>(const Case& c) {
    std::vector<T> row(c.C, T(Wide<T>(c.shift - c.d)));
    row[0] = T(Wide<T>(c.shift));
    const Tensor x = Tensor::from(row, {1, int64_t(c.C)}, test_device());
    for (const int32_t label : {0, 1}) {
      const double expected = std::log1p(double(c.C - 1) * std::exp(-c.d)) + label * c.d;
      // The roundings are the additions of a row, a unit in the last place, 2 u, for exp and for
      // log1p, the sum of the two terms, and the mean. The expected value, in double, has as many.
      const double bound =
          double(c.C + 12) * double(std::numeric_limits<Wide<T>>::epsilon()) / 2 * expected;
      INFO(fmt::format("{} at {}, {} lower, {} classes, label {}", name(x.dtype()), c.shift, c.d,
                       c.C, label));
      REQUIRE(std::abs(cross_entropy(x, indices({label}, x)).item() - expected) <= bound);
      const Tensor score = Tensor::full({2}, 0, DType::f64, test_device());
      add_score(score, x, indices({label}, x));
      REQUIRE(std::abs(to_doubles(score)[0] - expected) <= bound);
    }
  };
  for (const Case& c : {Case{1e4, 3, 2}, {30, 15, 2}, {-30, 15, 10}, {20, 20, 1000}, {5, 0, 7}}) {
    check_as.operator()<float>(c);
    check_as.operator()<double>(c);
  }
  for (const Case& c : {Case{30, 15, 2}, {-8, 0, 17}}) {
    check_as.operator()<Half>(c);
    check_as.operator()<BFloat16>(c);
  }
}

TEST_CASE("cross_entropy over several blocks of rows", "[ops]") {
  // One logit is log 16, and 16 logits are 0. A row's loss is log 32 - log 16 if the label is the
  // first, and log 32 otherwise.
  constexpr int64_t N = 3000, C = 17;
  std::vector<float> logits;
  std::vector<int32_t> labels;
  for (int64_t n = 0; n < N; ++n) {
    for (int64_t c = 0; c < C; ++c) logits.push_back(c == n % C ? std::log(16.0f) : 0);
    labels.push_back(static_cast<int32_t>(n % 3 == 0 ? n % C : (n + 1) % C));
  }
  const Tensor x = Tensor::from(logits, {N, C}, test_device());
  const Tensor loss = cross_entropy(x, indices(labels, x));
  // Sums over rows of 17 in float32, and then in double.
  REQUIRE(loss.item() == Approx(std::log(32.0) - std::log(16.0) / 3).epsilon(20 * 0x1p-24));
}

TEST_CASE("add_score adds losses and right answers", "[ops]") {
  const float nan = std::nanf("");
  const auto score_of = [](const std::vector<float>& row, int32_t label) {
    const Tensor score = Tensor::from(Values{10, 100}, {2}, test_device());
    add_score(score, Tensor::from(row, {1, static_cast<int64_t>(row.size())}, test_device()),
              indices({label}, score));
    const Values sums = to_doubles(score);
    return Values{sums[0] - 10, sums[1] - 100};
  };
  REQUIRE(score_of({0, std::log(3.0f)}, 1)[0] == Approx(std::log(4.0 / 3)).epsilon(8 * 0x1p-24));
  REQUIRE(score_of({0, std::log(3.0f)}, 0)[0] == Approx(std::log(4.0)).epsilon(8 * 0x1p-24));
  REQUIRE(score_of({1, 2, 1}, 1)[1] == 1);
  REQUIRE(score_of({1, 2, 1}, 0)[1] == 0);
  REQUIRE(score_of({1, 2, 1}, 2)[1] == 0);
  // If the largest logits are equal, the first counts.
  REQUIRE(score_of({2, 1, 2}, 0)[1] == 1);
  REQUIRE(score_of({2, 1, 2}, 2)[1] == 0);
  REQUIRE(score_of({nan, nan}, 0)[1] == 0);
  REQUIRE(score_of({1, nan}, 0)[1] == 0);
  REQUIRE(std::isnan(score_of({1, nan}, 0)[0]));
}

TEST_CASE("matrix ops refuse what does not fit", "[ops]") {
  const MetaScope on(GENERATE(false, true));
  const auto make = [](const Shape& shape) {
    return Tensor::full(shape, 1, DType::f32, test_device());
  };
  REQUIRE_ERROR(linear(make({2, 3}), make({4, 5}), Tensor()), "x [2, 3] and w [4, 5]");
  REQUIRE_ERROR(linear(make({2, 3}), make({4, 3}), make({5})), "expected b [4]");
  REQUIRE_ERROR(matmul(make({2, 3}), make({4, 5})), "a [2, 3] and b [4, 5]");
  REQUIRE_ERROR(add_linear(make({2, 4}), make({2, 3}), make({3, 4})), "x [2, 3] and w [3, 4]");
  REQUIRE_ERROR(add_linear(make({2, 3}), make({2, 3}), make({4, 3})),
                "[add_linear] a [2, 3], x [2, 3] and w [4, 3]: expected a [2, 4]");
  REQUIRE_ERROR(add_linear(make({2, 4}), make({2, 3}), make({4, 3}), make({3})), "expected b [4]");
  REQUIRE_ERROR(linear(make({2, 3}), Tensor::full({4, 3}, 1, DType::f64, test_device()), Tensor()),
                "x f32 [2, 3] on");
  REQUIRE_ERROR(add_score(make({2}), make({2, 3}), indices({0, 1}, make({}))),
                "expected score f64 [2]");
}

TEST_CASE("labels out of range are refused, and give NaN where no kernel can throw", "[ops]") {
  const Tensor x = require_grad(Tensor::full({2, 3}, 1, DType::f32, test_device()));
  for (const int32_t bad : {3, -1}) {
    const Tensor labels = indices({0, bad}, x);
    const Tensor score = Tensor::full({2}, 0, DType::f64, test_device());
    if (test_device() == Device::cpu) {
      const std::string part = fmt::format("label {} of sample 1 is outside [0, 3)", bad);
      REQUIRE_ERROR(cross_entropy(x, labels), part);
      REQUIRE_ERROR(add_score(score, x.detach(), labels), part);
      continue;
    }
    zero_grad(x);
    const Tensor loss = cross_entropy(x, labels);
    REQUIRE(std::isnan(loss.item()));
    backward(loss);
    const Values dx = to_doubles(grad(x));
    for (size_t i = 0; i < dx.size(); ++i) REQUIRE(std::isnan(dx[i]) == (i >= 3));
    add_score(score, x.detach(), labels);
    REQUIRE(std::isnan(to_doubles(score)[0]));
  }
}

}  // namespace accrue::test
