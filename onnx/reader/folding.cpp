#include "onnx/reader/folding.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "core/inside.h"
#include "onnx/reader/folded.h"

namespace accrue {
namespace {

// Arithmetic

bool is_whole(const Folded& a) { return !detail::is_floating(a.type); }

// Broadcasts as NumPy does.
Shape broadcast_of(const std::vector<const Folded*>& all) {
  int rank = 0;
  for (const Folded* each : all) rank = std::max(rank, each->shape.rank());
  std::vector<int64_t> sizes(size_t(rank), 1);
  for (const Folded* each : all)
    for (int i = 0; i < each->shape.rank(); ++i) {
      int64_t& size = sizes[size_t(rank - each->shape.rank() + i)];
      const int64_t own = each->shape[i];
      check(own == size || own == 1 || size == 1,
            "its inputs are {} and {}: expected sizes that "
            "can be broadcast",
            all.front()->shape, each->shape);
      if (size == 1) size = own;
    }
  check_folded(Shape(sizes));
  return Shape(sizes);
}

// Where element i of `shape` is in an operand that is broadcast to it.
class Broadcast {
 public:
  Broadcast(const Shape& shape, const Shape& operand) : shape_(shape) {
    strides_.resize(size_t(shape.rank()));
    int64_t stride = 1;
    for (int i = operand.rank(); i-- > 0; stride *= operand[i])
      strides_[size_t(shape.rank() - operand.rank() + i)] = operand[i] == 1 ? 0 : stride;
  }
  size_t operator()(int64_t i) const {
    int64_t at = 0;
    for (int d = shape_.rank(); d-- > 0; i /= shape_[d]) at += i % shape_[d] * strides_[size_t(d)];
    return size_t(at);
  }

 private:
  Shape shape_;
  std::vector<int64_t> strides_;
};

template <class F>
Folded each_of(const Folded& a, OnnxType type, const F& f) {
  Folded y{type, a.shape, a.numbers};
  for (double& number : y.numbers) number = f(number);
  return y;
}

template <class F>
Folded each_of(const Folded& a, const Folded& b, OnnxType type, const F& f) {
  Folded y{type, broadcast_of({&a, &b}), {}};
  const Broadcast at_a(y.shape, a.shape), at_b(y.shape, b.shape);
  for (int64_t i = 0; i < y.shape.numel(); ++i)
    y.numbers.push_back(f(a.numbers[at_a(i)], b.numbers[at_b(i)]));
  return y;
}

using F1 = double (*)(double);
using F2 = double (*)(double, double);

double quotient(double a, double b) {
  check(b != 0, "it divides integers by 0");
  return std::trunc(a / b);
}
double rest(double a, double b) {  // with the divisor's sign
  check(b != 0, "it divides integers by 0");
  return a - std::floor(a / b) * b;
}

const std::map<std::string, F1, std::less<>>& unary() {
  static const std::map<std::string, F1, std::less<>> all{
      {"Neg", [](double x) { return -x; }},
      {"Abs", [](double x) { return std::abs(x); }},
      {"Sqrt", [](double x) { return std::sqrt(x); }},
      {"Reciprocal", [](double x) { return 1 / x; }},
      {"Floor", [](double x) { return std::floor(x); }},
      {"Ceil", [](double x) { return std::ceil(x); }},
      {"Round", [](double x) { return std::nearbyint(x); }},
      {"Exp", [](double x) { return std::exp(x); }},
      {"Log", [](double x) { return std::log(x); }},
      {"Sin", [](double x) { return std::sin(x); }},
      {"Cos", [](double x) { return std::cos(x); }},
      {"Tanh", [](double x) { return std::tanh(x); }},
      {"Erf", [](double x) { return std::erf(x); }},
      {"Sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); }},
      {"Relu", [](double x) { return x > 0 ? x : 0; }},
      {"Sign", [](double x) { return double(x > 0) - double(x < 0); }},
      {"Not", [](double x) { return double(x == 0); }},
      {"IsNaN", [](double x) { return double(std::isnan(x)); }}};
  return all;
}

const std::map<std::string, F2, std::less<>>& binary() {
  static const std::map<std::string, F2, std::less<>> all{
      {"Add", [](double a, double b) { return a + b; }},
      {"Sub", [](double a, double b) { return a - b; }},
      {"Mul", [](double a, double b) { return a * b; }},
      {"Div", [](double a, double b) { return a / b; }},
      {"Pow", [](double a, double b) { return std::pow(a, b); }},
      {"Min", [](double a, double b) { return std::min(a, b); }},
      {"Max", [](double a, double b) { return std::max(a, b); }},
      {"Mod", rest},
      {"Equal", [](double a, double b) { return double(a == b); }},
      {"Less", [](double a, double b) { return double(a < b); }},
      {"Greater", [](double a, double b) { return double(a > b); }},
      {"LessOrEqual", [](double a, double b) { return double(a <= b); }},
      {"GreaterOrEqual", [](double a, double b) { return double(a >= b); }},
      {"And", [](double a, double b) { return double(a != 0 && b != 0); }},
      {"Or", [](double a, double b) { return double(a != 0 || b != 0); }},
      {"Xor", [](double a, double b) { return double((a != 0) != (b != 0)); }}};
  return all;
}

bool gives_truth(std::string_view op) {
  constexpr std::string_view ops[]{"Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual",
                                   "And",   "Or",   "Xor",     "Not",         "IsNaN"};
  return std::ranges::find(ops, op) != std::end(ops);
}

std::vector<Folded> arithmetic(const FoldedNode& n) {
  const std::string& op = n.node.op;
  if (const auto f = unary().find(op); f != unary().end())
    return {each_of(n[0], gives_truth(op) ? OnnxType::boolean : n[0].type, f->second)};
  F2 f = binary().find(op)->second;
  check(op != "Mod" || n.node.integer("fmod", 0) == 0, "its fmod is 1: expected 0");
  if (op == "Div" && is_whole(n[0])) f = quotient;
  const OnnxType type = gives_truth(op) ? OnnxType::boolean : n[0].type;
  if (n.inputs.size() == 1) return {n[0]};
  Folded y = each_of(n[0], n[1], type, f);
  for (size_t i = 2; i < n.inputs.size(); ++i) y = each_of(y, n[i], type, f);
  return {y};
}

std::vector<Folded> where_of(const FoldedNode& n) {
  Folded y{n[1].type, broadcast_of({&n[0], &n[1], &n[2]}), {}};
  const Broadcast at(y.shape, n[0].shape), at_a(y.shape, n[1].shape), at_b(y.shape, n[2].shape);
  for (int64_t i = 0; i < y.shape.numel(); ++i)
    y.numbers.push_back(n[0].numbers[at(i)] != 0 ? n[1].numbers[at_a(i)] : n[2].numbers[at_b(i)]);
  return {y};
}

std::vector<Folded> cast_of(const FoldedNode& n) {
  const OnnxType to = n.node.op == "CastLike" ? n[1].type : OnnxType(n.node.integer("to", 0));
  Folded y = n[0];
  y.type = to;
  return {y};
}

// New constants

std::vector<Folded> constant_of(const FoldedNode& n) {
  const auto& all = n.node.attributes;
  check(all.size() == 1, "it has {}: expected one", counted(std::ssize(all), "attribute"));
  const auto& [name, value] = *all.begin();
  if (const auto* tensor = std::get_if<OnnxTensor>(&value))
    return {{tensor->type, tensor->shape, tensor->numbers()}};
  if (const auto* number = std::get_if<double>(&value)) return {{OnnxType::f32, {}, {*number}}};
  if (const auto* number = std::get_if<int64_t>(&value))
    return {{OnnxType::i64, {}, {double(*number)}}};
  if (const auto* numbers = std::get_if<std::vector<double>>(&value))
    return {{OnnxType::f32, {std::ssize(*numbers)}, *numbers}};
  if (const auto* numbers = std::get_if<std::vector<int64_t>>(&value))
    return {{OnnxType::i64, {std::ssize(*numbers)}, {numbers->begin(), numbers->end()}}};
  fail("its attribute '{}' is of another kind: expected numbers", name);
}

std::vector<Folded> constant_of_shape(const FoldedNode& n) {
  Folded y{OnnxType::f32, n.shape_in(0), {}};
  double value = 0;
  if (n.node.has("value")) {
    const auto* tensor = std::get_if<OnnxTensor>(&n.node.attributes.at("value"));
    check(tensor != nullptr && tensor->numel() == 1, "its attribute 'value' is no number");
    y.type = tensor->type;
    value = tensor->numbers().front();
  }
  y.numbers.assign(n.checked(y.shape), value);
  return {y};
}

std::vector<Folded> range_of(const FoldedNode& n) {
  const double begin = n.number(0), end = n.number(1), step = n.number(2);
  check(step != 0, "its step is 0: expected another");
  const double many = std::max(0.0, std::ceil((end - begin) / step));
  Folded y{n[0].type, {}, {}};
  y.shape = Shape({int64_t(std::min(many, 1e15))});
  n.checked(y.shape);
  for (int64_t i = 0; i < y.shape.numel(); ++i) y.numbers.push_back(begin + double(i) * step);
  return {y};
}

std::vector<Folded> eye_like(const FoldedNode& n) {
  check(n[0].shape.rank() == 2, "its input is {}: expected two dimensions", n[0].shape);
  Folded y{OnnxType(n.node.integer("dtype", int64_t(n[0].type))), n[0].shape, {}};
  const int64_t k = n.node.integer("k", 0);
  for (int64_t i = 0; i < y.shape[0]; ++i)
    for (int64_t j = 0; j < y.shape[1]; ++j) y.numbers.push_back(j - i == k ? 1 : 0);
  return {y};
}

// Sums and the like

std::vector<Folded> reduction(const FoldedNode& n) {
  const Folded& x = n[0];
  const std::string& op = n.node.op;
  std::vector<bool> reduced(size_t(x.shape.rank()));
  std::vector<int64_t> axes = n.axes_in("axes", 1);
  if (axes.empty() && n.node.integer("noop_with_empty_axes", 0) == 1) return {x};
  if (axes.empty()) reduced.assign(reduced.size(), true);
  for (const int64_t axis : axes) reduced[size_t(n.dimension(axis, x.shape.rank()))] = true;
  Shape kept = x.shape;
  std::vector<int64_t> squeezed;
  for (int i = 0; i < x.shape.rank(); ++i) {
    if (reduced[size_t(i)]) kept = kept.with(i, 1);
    else squeezed.push_back(x.shape[i]);
  }
  const double inf = HUGE_VAL;
  const double begin = op == "ReduceProd"  ? 1
                       : op == "ReduceMax" ? -inf
                       : op == "ReduceMin" ? inf
                                           : 0;
  Folded y{x.type, kept, std::vector<double>(size_t(kept.numel()), begin)};
  const Broadcast at(x.shape, kept);
  for (int64_t i = 0; i < std::ssize(x.numbers); ++i) {
    double& sum = y.numbers[at(i)];
    const double each = x.numbers[size_t(i)];
    if (op == "ReduceProd") sum *= each;
    else if (op == "ReduceMax") sum = std::max(sum, each);
    else if (op == "ReduceMin") sum = std::min(sum, each);
    else sum += each;
  }
  if (op == "ReduceMean")
    for (double& each : y.numbers) each *= double(kept.numel()) / double(x.shape.numel());
  if (n.node.integer("keepdims", 1) == 0) y.shape = Shape(squeezed);
  return {y};
}

std::vector<Folded> cumsum_of(const FoldedNode& n) {
  Folded y = n[0];
  check(n.node.integer("exclusive", 0) == 0 && n.node.integer("reverse", 0) == 0,
        "it is exclusive or in reverse: expected neither");
  const int dim = n.dimension(onnx_integer(n.number(1)), y.shape.rank());
  const int64_t inner = y.shape.numel(dim + 1, y.shape.rank()), size = y.shape[dim];
  for (int64_t i = 0; i < std::ssize(y.numbers); ++i)
    if (i / inner % size > 0) y.numbers[size_t(i)] += y.numbers[size_t(i - inner)];
  return {y};
}

using Fold = std::vector<Folded> (*)(const FoldedNode& node);

const std::map<std::string, Fold, std::less<>>& folds() {
  static const auto all = [] {
    std::map<std::string, Fold, std::less<>> found{
        {"Constant", constant_of}, {"ConstantOfShape", constant_of_shape},
        {"Range", range_of},       {"EyeLike", eye_like},
        {"Where", where_of},       {"Cast", cast_of},
        {"CastLike", cast_of},     {"CumSum", cumsum_of},
        {"ReduceSum", reduction},  {"ReduceProd", reduction},
        {"ReduceMean", reduction}, {"ReduceMax", reduction},
        {"ReduceMin", reduction}};
    for (const auto& [name, _] : unary()) found[name] = arithmetic;
    for (const auto& [name, _] : binary()) found[name] = arithmetic;
    for (const auto& [name, move] : folded_moves()) found[name] = move;
    return found;
  }();
  return all;
}

}  // namespace

bool detail::can_fold(const OnnxNode& node) {
  return node.domain.empty() && folds().contains(node.op);
}

std::vector<std::shared_ptr<const OnnxConstant>> detail::fold(
    const OnnxNode& node, const std::vector<std::shared_ptr<const OnnxConstant>>& inputs,
    int64_t opset) {
  const Fold run = folds().find(node.op)->second;
  const bool is_fixed =
      std::ranges::all_of(inputs, [](const auto& input) { return !input || input->is_fixed(); });
  std::array<std::vector<Folded>, 2> results;
  for (const size_t i : {size_t{0}, size_t{1}}) {
    if (i == 1 && is_fixed) break;
    std::vector<std::optional<Folded>> at;
    for (const auto& input : inputs) {
      at.emplace_back();
      if (input) at.back() = Folded{input->type(), input->shape(i), input->numbers(i)};
    }
    results[i] = run({node, at, opset});
  }
  // Each constant is rounded to its type: what follows is calculated from that.
  std::vector<std::shared_ptr<const OnnxConstant>> made;
  for (size_t k = 0; k < results[0].size(); ++k) {
    Folded& few = results[0][k];
    if (is_fixed) {
      made.push_back(
          std::make_shared<const OnnxConstant>(few.type, few.shape, std::move(few.numbers)));
      continue;
    }
    Folded& many = results[1].at(k);
    made.push_back(std::make_shared<const OnnxConstant>(
        few.type, std::array{few.shape, many.shape},
        std::array{std::move(few.numbers), std::move(many.numbers)}));
  }
  return made;
}

std::shared_ptr<const OnnxConstant> detail::shape_constant(const OnnxNode& node,
                                                           const ValueSizes& sizes) {
  const auto rank = int64_t(sizes.shape.size());
  const auto place = [&](const char* name, int64_t by_default) {
    const int64_t at = node.integer(name, by_default);
    return std::clamp(at < 0 ? at + rank : at, int64_t{0}, rank);
  };
  const int64_t begin = place("start", 0), end = place("end", rank);
  std::array<std::vector<double>, 2> numbers;
  for (const size_t i : {size_t{0}, size_t{1}})
    for (int64_t k = begin; k < end; ++k)
      numbers[i].push_back(double(sizes.shape[size_t(k)].of(rehearsed_samples[i])));
  if (node.op == "Size") {
    for (auto& each : numbers)
      each = {std::accumulate(each.begin(), each.end(), 1.0, std::multiplies<>())};
    return std::make_shared<const OnnxConstant>(OnnxType::i64, std::array{Shape{}, Shape{}},
                                                numbers);
  }
  const Shape shape{std::max<int64_t>(0, end - begin)};
  return std::make_shared<const OnnxConstant>(OnnxType::i64, std::array{shape, shape}, numbers);
}

}  // namespace accrue
