// The formulas of elementwise ops, with broadcasting, and the operators that read as formulas do.

#include "kernels/elementwise.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "core/autograd.h"
#include "kernels/operators.h"
#include "kernels/parallel.h"
#include "kernels/pointwise.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"
#include "tests/support/op_table.h"

namespace accrue::test {
namespace {

// A formula as plain C++, and the numbers that the table tries it with.
struct FormulaRow {
  Formula formula;
  std::function<double(double a, double b, double c)> f;
  double low = -2, high = 2, gap = 1e-3;
  std::vector<double> scalars = {};
  bool in_16_bits = true;
};

double softplus_of(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }

double selu_of(double x) {
  return 1.0507009873554805 * (x > 0 ? x : 1.6732632423543772 * std::expm1(x));
}

// Formulas with steps are not tried with 16-bit numbers, which lie on the steps.
const std::vector<FormulaRow>& rows() {
  using F = Formula;
  static const std::vector<FormulaRow> rows = {
      {F::add, [](double a, double b, double) { return a + b; }},
      {F::mul, [](double a, double b, double) { return a * b; }},
      {F::exp, [](double a, double, double) { return std::exp(a); }},
      {F::log, [](double a, double, double) { return std::log(a); }, 0.1, 3},
      {F::log1p, [](double a, double, double) { return std::log1p(a); }, -0.8, 3},
      {F::expm1, [](double a, double, double) { return std::expm1(a); }},
      {F::sqrt, [](double a, double, double) { return std::sqrt(a); }, 0.1, 3},
      {F::rsqrt, [](double a, double, double) { return 1 / std::sqrt(a); }, 0.2, 3},
      {F::reciprocal, [](double a, double, double) { return 1 / a; }, -2, 2, 0.3},
      {F::square, [](double a, double, double) { return a * a; }},
      {F::abs, [](double a, double, double) { return std::abs(a); }},
      {F::neg, [](double a, double, double) { return -a; }},
      {F::sign, [](double a, double, double) { return a > 0 ? 1 : -1; }},
      {F::floor, [](double a, double, double) { return std::floor(a); }, -3, 3, 1e-3, {}, false},
      {F::ceil, [](double a, double, double) { return std::ceil(a); }, -3, 3, 1e-3, {}, false},
      {F::round,
       [](double a, double, double) { return std::nearbyint(a); },
       -3,
       3,
       1e-3,
       {},
       false},
      {F::erf, [](double a, double, double) { return std::erf(a); }},
      {F::sin, [](double a, double, double) { return std::sin(a); }, -3, 3},
      {F::cos, [](double a, double, double) { return std::cos(a); }, -3, 3},
      {F::tan, [](double a, double, double) { return std::tan(a); }, -1.1, 1.1},
      {F::asin, [](double a, double, double) { return std::asin(a); }, -0.8, 0.8},
      {F::acos, [](double a, double, double) { return std::acos(a); }, -0.8, 0.8},
      {F::atan, [](double a, double, double) { return std::atan(a); }},
      {F::sinh, [](double a, double, double) { return std::sinh(a); }},
      {F::cosh, [](double a, double, double) { return std::cosh(a); }},
      {F::asinh, [](double a, double, double) { return std::asinh(a); }},
      {F::acosh, [](double a, double, double) { return std::acosh(a); }, 1.3, 3},
      {F::atanh, [](double a, double, double) { return std::atanh(a); }, -0.8, 0.8},
      {F::softplus,
       [](double a, double, double) { return softplus_of(a * 1.5) / 1.5; },
       -3,
       3,
       0,
       {1.5}},
      {F::hard_sigmoid, [](double a, double, double) { return std::clamp(a / 6 + 0.5, 0.0, 1.0); },
       -4, 4},
      {F::hard_sigmoid,
       [](double a, double, double) { return std::clamp(0.2 * a + 0.4, 0.0, 1.0); },
       -4,
       4,
       0,
       {0.2, 0.4}},
      {F::hard_swish, [](double a, double, double) { return a * std::clamp(a + 3, 0.0, 6.0) / 6; },
       -4, 4},
      {F::elu,
       [](double a, double, double) { return a > 0 ? a : 0.7 * std::expm1(a); },
       -3,
       3,
       1e-3,
       {0.7}},
      {F::celu,
       [](double a, double, double) { return a > 0 ? a : 0.7 * std::expm1(a / 0.7); },
       -3,
       3,
       1e-3,
       {0.7}},
      {F::selu, [](double a, double, double) { return selu_of(a); }, -3, 3},
      {F::mish, [](double a, double, double) { return a * std::tanh(softplus_of(a)); }, -3, 3},
      {F::softsign, [](double a, double, double) { return a / (1 + std::abs(a)); }},
      {F::log_sigmoid, [](double a, double, double) { return -softplus_of(-a); }, -3, 3},
      {F::clamp,
       [](double a, double, double) { return std::clamp(a, -0.7, 1.1); },
       -2,
       2,
       0,
       {-0.7, 1.1}},
      {F::clamp, [](double a, double, double) { return std::max(a, 0.3); }, -2, 2, 0, {0.3}},
      {F::threshold,
       [](double a, double, double) { return a > 0.3 ? a : -0.2; },
       -2,
       2,
       0,
       {0.3, -0.2}},
      {F::shrink,
       [](double a, double, double) { return std::abs(a) > 0.7 ? a - std::copysign(0.2, a) : 0; },
       -2,
       2,
       0,
       {0.7, 0.2}},
      {F::pow_scalar, [](double a, double, double) { return std::pow(a, 2.3); }, 0.2, 2, 0, {2.3}},
      {F::pow_scalar, [](double a, double, double) { return a * a * a; }, -2, 2, 0, {3}},
      {F::pow_scalar, [](double, double, double) { return 1; }, -2, 2, 0, {0}},
      {F::add_scalar, [](double a, double, double) { return a + 0.7; }, -2, 2, 0, {0.7}},
      {F::rsub, [](double a, double, double) { return 0.7 - a; }, -2, 2, 0, {0.7}},
      {F::div_scalar, [](double a, double, double) { return a / 3; }, -2, 2, 0, {3}},
      {F::rdiv, [](double a, double, double) { return 2 / a; }, -2, 2, 0.4, {2}},
      {F::is_nan, [](double, double, double) { return 0; }},
      {F::logical_not, [](double a, double, double) { return a == 0; }},
      {F::sub, [](double a, double b, double) { return a - b; }},
      {F::div, [](double a, double b, double) { return a / b; }, -2, 2, 0.4},
      {F::pow, [](double a, double b, double) { return std::pow(a, b); }, 0.2, 2},
      {F::minimum, [](double a, double b, double) { return std::min(a, b); }},
      {F::maximum, [](double a, double b, double) { return std::max(a, b); }},
      {F::equal, [](double a, double b, double) { return a == b; }},
      {F::not_equal, [](double a, double b, double) { return a != b; }},
      {F::less, [](double a, double b, double) { return a < b; }, -2, 2, 1e-3, {}, false},
      {F::remainder,
       [](double a, double b, double) { return a - b * std::floor(a / b); },
       -3,
       3,
       0.7,
       {},
       false},
      {F::floor_divide,
       [](double a, double b, double) { return std::floor(a / b); },
       -3,
       3,
       0.7,
       {},
       false},
      {F::atan2, [](double a, double b, double) { return std::atan2(a, b); }, -2, 2, 0.2},
      {F::less_equal, [](double a, double b, double) { return a <= b; }, -2, 2, 1e-3, {}, false},
      {F::greater, [](double a, double b, double) { return a > b; }, -2, 2, 1e-3, {}, false},
      {F::greater_equal, [](double a, double b, double) { return a >= b; }, -2, 2, 1e-3, {}, false},
      {F::logical_and, [](double, double, double) { return 1; }},
      {F::logical_or, [](double, double, double) { return 1; }},
      {F::logical_xor, [](double, double, double) { return 0; }},
      {F::where, [](double a, double b, double c) { return a > 0 ? b : c; }},
  };
  return rows;
}

// The number in x that index i of `shape` reads.
size_t number_in(const Shape& x, const Shape& shape, int64_t i) {
  int64_t at = 0, stride = 1;
  for (int d = shape.rank() - 1, k = x.rank() - 1; k >= 0; --d, --k) {
    if (x[k] != 1) at += i % shape[d] * stride;
    i /= shape[d];
    stride *= x[k];
  }
  return static_cast<size_t>(at);
}

Shape shape_of_all(const std::vector<Shape>& shapes) {
  size_t rank = 0;
  for (const Shape& shape : shapes) rank = std::max(rank, shape.sizes().size());
  std::vector<int64_t> sizes(rank, 1);
  for (const Shape& shape : shapes)
    for (int d = 1; d <= shape.rank(); ++d)
      if (shape[-d] != 1) sizes[rank - static_cast<size_t>(d)] = shape[-d];
  return Shape(sizes);
}

// The row's op on operands of these shapes. One without a gradient is multiplied by a and added to
// b, so that both have one.
Op op_of(const FormulaRow& row, const std::vector<Shape>& shapes) {
  const FormulaInfo& info = info_of(row.formula);
  const bool has_gradient = info.is_differentiable() && row.formula != Formula::where;
  const auto run = [=](const std::vector<Tensor>& in) {
    std::array<Tensor, 3> x;
    std::ranges::copy(in, x.begin());
    if (row.formula == Formula::where)
      x[0] = greater(x[0], Tensor::full({}, 0, x[0].dtype(), x[0].device()));
    const Tensor y = apply(row.formula, x, row.scalars);
    return has_gradient ? y : add(mul(y, in[0]), in.back());
  };
  const Shape shape = shape_of_all(shapes);
  const auto reference = [=](const std::vector<Values>& in) {
    Values y;
    for (int64_t i = 0; i < shape.numel(); ++i) {
      double at[3] = {};
      for (size_t k = 0; k < in.size(); ++k) at[k] = in[k][number_in(shapes[k], shape, i)];
      const double value = row.f(at[0], at[1], at[2]);
      y.push_back(has_gradient ? value : value * at[0] + at[in.size() - 1]);
    }
    return y;
  };
  std::string name(info.name);
  for (const Shape& x : shapes) name += " " + to_string(x);
  return {.name = name,
          .inputs = shapes,
          .run = run,
          .reference = reference,
          // Each gradient is a sum of at most so many terms.
          .depth = 8 + double(shape.numel()) / double(std::max<int64_t>(1, shapes[0].numel())),
          .low = row.low,
          .high = row.high,
          .gap = row.gap,
          .roundings = has_gradient ? 1.0 : 3.0,
          .in_16_bits = row.in_16_bits};
}

// check_op() that goes on with the next row.
void try_op(const Op& op) {
  if (const auto failure = op_failure(op)) FAIL_CHECK(*failure);
}

const FormulaRow& row_of(Formula formula) {
  return *std::ranges::find(rows(), formula, &FormulaRow::formula);
}

}  // namespace

TEST_CASE("every formula has a row", "[ops]") {
  std::set<Formula> tried;
  for (const FormulaRow& row : rows()) tried.insert(row.formula);
  for (const FormulaInfo& info : all_formulas()) {
    INFO(info.name);
    REQUIRE(tried.contains(info.formula));
    REQUIRE(&info_of(info.formula) == &info);
  }
}

TEST_CASE("formulas", "[ops]") {
  for (const FormulaRow& row : rows()) {
    const auto operands = static_cast<size_t>(info_of(row.formula).operands);
    try_op(op_of(row, std::vector<Shape>(operands, {3, 7, 2})));
  }
}

TEST_CASE("formulas of operands that are broadcast", "[ops]") {
  const std::vector<std::vector<Shape>> pairs = {
      {{2, 1, 3}, {4, 1}},
      {{1}, {2, 3}},
      {{}, {2, 3}},
      {{2, 3}, {}},
      {{5, 1}, {1, 7}},
      {{2, 3, 4}, {3, 1}},
      {{6, 5}, {5}},
      {{1, 1, 1}, {2, 3}},
      {{2, 1, 3, 1, 2, 1}, {1, 4, 1, 2, 1, 3}},
      {{3, 1, 4}, {2, 1}},
      {{0, 3}, {3}},
      {{1}, {0}},
      {{1, 2}, {2}},
      {{}, {}},
      {{2, 1, 1, 1, 3, 1, 1, 2}, {2, 1, 2}},
  };
  for (const auto& shapes : pairs)
    for (const Formula formula : {Formula::add, Formula::mul, Formula::div})
      try_op(op_of(row_of(formula), shapes));
  for (const Formula formula :
       {Formula::sub, Formula::pow, Formula::maximum, Formula::minimum, Formula::less})
    try_op(op_of(row_of(formula), {{2, 1, 3}, {4, 1}}));
  try_op(op_of(row_of(Formula::where), {{2, 1, 3}, {4, 1}, {1, 3}}));
  try_op(op_of(row_of(Formula::where), {{3}, {2, 3}, {}}));
}

// Sums of enough terms for pieces, in every layout.
TEST_CASE("gradients of broadcast operands have the same bits on any number of threads", "[ops]") {
  const int threads = thread_count();
  const int64_t size = on_runner() ? 1 : 8;
  const std::vector<std::pair<Shape, Shape>> cases = {
      {{20000 * size}, {1}},
      {{40 * size, 500}, {500}},
      {{500, 40 * size}, {500, 1}},
      {{1, 30, 70 * size, 5}, {30, 1, 5}},
      {{7000 * size, 3}, {3}},
      {{3, 7000 * size}, {3, 1}},
      {{10 * size, 1500}, {1500}},
      {{6, 11, 13 * size, 17}, {1, 11, 1, 17}},
      {{6, 11, 13 * size, 17}, {6, 1, 13 * size, 1}},
      {{3, 6000 * size}, {6000 * size}},
  };
  for (const auto& [shape, part] : cases)
    for (const DType dtype : {DType::f32, DType::bf16}) {
      INFO(to_string(shape) << " and " << to_string(part) << " " << name(dtype));
      const Tensor a = tensor_with(random_values(shape, 1), shape, dtype),
                   dy = tensor_with(random_values(shape, 3), shape, dtype);
      const Tensor b = require_grad(tensor_with(random_values(part, 2), part, dtype));
      const Values of_a = to_doubles(a), of_dy = to_doubles(dy);
      Values expected(static_cast<size_t>(part.numel())), magnitude = expected;
      for (int64_t i = 0; i < shape.numel(); ++i) {
        const double term = of_a[static_cast<size_t>(i)] * of_dy[static_cast<size_t>(i)];
        expected[number_in(part, shape, i)] += term;
        magnitude[number_in(part, shape, i)] += std::abs(term);
      }
      Values first;
      for (const int count : {1, 2, 3}) {
        set_thread_count(count);
        zero_grad(b);
        backward_from(mul(a, b), of_dy);
        const Values db = to_doubles(grad(b));
        if (count == 1) first = db;
        REQUIRE(db == first);
        for (size_t i = 0; i < db.size(); ++i) {
          const double last = dtype == DType::bf16 ? 0x1p-8 : 0x1p-24;
          REQUIRE(std::abs(db[i] - expected[i]) <=
                  64 * 0x1p-24 * magnitude[i] + last * std::abs(expected[i]));
        }
      }
    }
  set_thread_count(threads);
}

TEST_CASE("a formula's result goes over an operand that nothing needs any more", "[ops]") {
  const auto filled = [](const Shape& shape, double value) {
    return Tensor::full(shape, value, DType::f32, test_device());
  };
  Tensor x = filled({2, 3}, 4);
  const void* storage = x.view().data;
  REQUIRE(exp(x).view().data != storage);
  REQUIRE(to_doubles(x)[0] == 4);
  Tensor y = sqrt(std::move(x));
  REQUIRE(y.view().data == storage);
  REQUIRE(to_doubles(y)[5] == 2);
  // Over the operand that has the shape of the result.
  y = sub(filled({3}, 1), std::move(y));
  REQUIRE(y.view().data == storage);
  REQUIRE(to_doubles(y)[5] == -1);
  // log's gradient reads its operand, exp's does not.
  const Tensor leaf = require_grad(filled({4}, 2));
  Tensor passed_on = scale(leaf, 1);
  storage = passed_on.view().data;
  Tensor z = exp(std::move(passed_on));
  REQUIRE(z.view().data == storage);
  z = log(std::move(z));
  REQUIRE(z.view().data != storage);
  backward_of_sum(z);
  REQUIRE(std::abs(to_doubles(grad(leaf))[3] - 1) < 1e-6);
}

TEST_CASE("formulas where results and gradients go over what came in", "[ops]") {
  const auto chain = [](auto run, auto f) {
    return Op{.name = "chain",
              .inputs = {{3, 5}, {5}},
              .run = [=](const auto& in) { return run(in[0], in[1]); },
              .reference =
                  [=](const auto& in) {
                    Values y;
                    for (size_t i = 0; i < in[0].size(); ++i)
                      y.push_back(f(in[0][i], in[1][i % 5]));
                    return y;
                  },
              .depth = 24,
              .gap = 0.1,
              .roundings = 6};
  };
  try_op(chain([](const Tensor& a, const Tensor& b) { return sqrt(exp(scale(a, 2)) + square(b)); },
               [](double a, double b) { return std::sqrt(std::exp(2 * a) + b * b); }));
  try_op(chain([](const Tensor& a, const Tensor& b) { return sin(a * 2.0) - (1.0 - b) * a / 3.0; },
               [](double a, double b) { return std::sin(a * 2) - (1 - b) * a / 3; }));
  try_op(chain([](const Tensor& a, const Tensor& b) { return 2.0 / (a * a + 1.5) - -b + 0.5; },
               [](double a, double b) { return 2 / (a * a + 1.5) + b + 0.5; }));
  try_op(chain([](const Tensor& a,
                  const Tensor& b) { return maximum(b, a) * where(less(a, b), b, a) - 1.0; },
               [](double a, double b) { return std::max(a, b) * (a < b ? b : a) - 1; }));
}

TEST_CASE("formulas at the end of a segment that is computed twice", "[ops]") {
  const Tensor a = require_grad(tensor_with(random_values({4, 3}, 1), {4, 3}, DType::f32)),
               b = require_grad(tensor_with({2, 3, 4}, {3}, DType::f32));
  const auto first = [](const auto& in) { return sin(in[0]) * in[1]; };
  const std::vector<std::function<Tensor(Tensor)>> ends = {
      [&](Tensor x) { return std::move(x) / b; }, [&](Tensor x) { return std::move(x) + b; },
      [&](Tensor x) { return exp(std::move(x)); }};
  for (const auto& end : ends) {
    std::vector<Values> gradients;
    for (const bool twice : {false, true}) {
      zero_grad(a);
      zero_grad(b);
      const Tensor y = twice ? recompute(first, {a, b}, end) : end(first(std::vector{a, b}));
      backward_of_sum(y);
      gradients.push_back(to_doubles(grad(a)));
      gradients.push_back(to_doubles(grad(b)));
    }
    REQUIRE(gradients[0] == gradients[2]);
    REQUIRE(gradients[1] == gradients[3]);
  }
}

TEST_CASE("a float32 parameter beside 16-bit operands is read from its copy", "[ops]") {
  for (const Formula formula : {Formula::add, Formula::mul, Formula::div}) {
    Op op = op_of(row_of(formula), {{4, 3}, {3}});
    op.parameters = {1};
    try_op(op);
    op = op_of(row_of(formula), {{4, 3}, {4, 3}});
    op.parameters = {1};
    try_op(op);
    op = op_of(row_of(formula), {{3}, {4, 3}});
    op.parameters = {0};
    try_op(op);
  }
}

TEST_CASE("pow of common exponents is the simpler formula", "[ops]") {
  const Tensor x = tensor_with({0.5, 1, 2, 4}, {4}, DType::f32);
  REQUIRE(to_doubles(pow(x, 2)) == Values{0.25, 1, 4, 16});
  REQUIRE(to_doubles(pow(x, -1)) == Values{2, 1, 0.5, 0.25});
  REQUIRE(to_doubles(pow(x * x, 0.5)) == Values{0.5, 1, 2, 4});
  REQUIRE(to_doubles(pow(x, 3)) == Values{0.125, 1, 8, 64});
}

TEST_CASE("formulas refuse what does not fit", "[ops]") {
  const MetaScope on(GENERATE(false, true));
  REQUIRE_ERROR(div(ones({2, 3}), ones({3, 2})), "[div] a [2, 3] and b [3, 2]");
  REQUIRE_ERROR(add(ones({0}), ones({2})), "[add] a [0] and b [2]");
  REQUIRE_ERROR(where(ones({2}), ones({2}), ones({3})), "[where] a [2] and c [3]");
  REQUIRE_ERROR(exp(Tensor()), "[exp] an operand is undefined");
  REQUIRE_ERROR(div(ones({2}), Tensor()), "[div] an operand is undefined");
  REQUIRE_ERROR(apply(Formula::exp, {ones({2}), ones({2})}), "[exp] operand number 2 came");
  REQUIRE_ERROR(apply(Formula::elu, {ones({2})}, {1, 2}),
                "[elu] 2 scalars came: expected at most 1");
  REQUIRE_ERROR(div(ones({2}), Tensor::full({2}, 1, DType::f64, test_device())),
                "f32 [2] and f64 [2]");
  REQUIRE_ERROR(div(ones({2}), Tensor::full({2}, 1, DType::bf16, test_device())), "[div]");
}

}  // namespace accrue::test
