// The nodes of the general ops' kernels: formulas, softmax, sums along a dimension, products.

#include <array>
#include <map>
#include <numbers>

#include "kernels/detail/batches.h"
#include "kernels/detail/elementwise_kernels.h"
#include "kernels/detail/softmax_kernels.h"
#include "onnx/writer/onnx_trace.h"

// Declared here for the same reason as in nodes.cpp.
namespace accrue::cpu {

void one_hot(View y, View index);
void softmax(View y, View x, Dimension d, SoftmaxOptions options);
void cumsum(GradTarget y, View x, Dimension d, Direction direction);
void batched_matmul(GradTarget c, View a, View b, Batches batches, Transpose a_op, Transpose b_op,
                    View workspace);

}  // namespace accrue::cpu

namespace accrue {
namespace {

using Name = OnnxTrace::Name;
using Integers = OnnxTrace::Integers;

// A call of a formula: its operands, and its scalars.
struct FormulaCall {
  OnnxTrace& to;
  std::vector<Name> x;
  const double* scalars;

  Name node(std::string_view op, const std::vector<Name>& inputs,
            const OnnxGraph::Attributes& attributes = {}) const {
    return to.graph.add(op, inputs, attributes);
  }
  Name number(double value) const { return to.graph.number(value); }
  Name truth(const Name& a) const { return to.cast(a, onnx::TensorProto::BOOL); }
  Name from_truth(const Name& a) const { return to.cast(a, onnx::TensorProto::FLOAT); }
};

// log(1 + exp(a))
Name softplus(const FormulaCall& f, const Name& a) { return f.node("Softplus", {a}); }

Name not_equal_node(const FormulaCall& f) {
  return f.from_truth(f.node("Not", {f.node("Equal", f.x)}));
}

// 2 atanh(a / (a + 2)) near 0, where 1 + a would be rounded
Name log1p_node(const FormulaCall& f) {
  const Name& a = f.x[0];
  const Name ratio = f.node("Div", {a, f.to.sum(a, f.number(2))});
  const Name near = f.to.multiply(f.node("Atanh", {ratio}), 2);
  const Name far = f.node("Log", {f.to.sum(a, f.number(1))});
  const Name is_near = f.node("Less", {f.node("Abs", {a}), f.number(0.5)});
  return f.node("Where", {is_near, near, far});
}

// 2 sinh(a / 2) exp(a / 2) near 0, where exp(a) would be rounded
Name expm1_node(const FormulaCall& f) {
  const Name& a = f.x[0];
  const Name half = f.to.multiply(a, 0.5);
  const Name sinh = f.node("Sinh", {half});
  const Name near = f.to.multiply(f.to.multiply(sinh, f.node("Exp", {half})), 2);
  const Name far = f.node("Sub", {f.node("Exp", {a}), f.number(1)});
  const Name is_near = f.node("Less", {f.node("Abs", {a}), f.number(0.5)});
  return f.node("Where", {is_near, near, far});
}

// log(1 + exp(beta a)) / beta, and a where beta a is above the threshold
Name softplus_formula(const FormulaCall& f) {
  const double beta = f.scalars[0], threshold = f.scalars[1];
  const Name scaled = beta == 1 ? f.x[0] : f.to.multiply(f.x[0], beta);
  Name y = softplus(f, scaled);
  if (beta != 1) y = f.node("Div", {y, f.number(beta)});
  // From here on both are the same in float32.
  if (threshold >= 17) return y;
  return f.node("Where", {f.node("Greater", {scaled, f.number(threshold)}), f.x[0], y});
}

// With a single bound, onnxruntime's Clip makes an infinite number the largest finite one.
Name clip_node(const FormulaCall& f) {
  const double low = f.scalars[0], high = f.scalars[1];
  if (std::isfinite(low) && std::isfinite(high))
    return f.node("Clip", {f.x[0], f.number(low), f.number(high)});
  if (std::isfinite(low)) return f.node("Max", {f.x[0], f.number(low)});
  return std::isfinite(high) ? f.node("Min", {f.x[0], f.number(high)}) : f.x[0];
}

// 0 for what is in between, and NaN for NaN, which ONNX's Shrink makes 0
Name shrink_node(const FormulaCall& f) {
  const Name y = f.node("Shrink", f.x, {{"lambd", f.scalars[0]}, {"bias", f.scalars[1]}});
  return f.node("Where", {f.node("IsNaN", f.x), f.x[0], y});
}

// The rest that fmod leaves of a, and whether that has another sign than b.
std::array<Name, 2> rest(const FormulaCall& f) {
  const Name rest = f.node("Mod", f.x, {{"fmod", int64_t{1}}}), zero = f.number(0);
  const Name is_less = f.node("Less", {rest, zero}), is_b_less = f.node("Less", {f.x[1], zero});
  const Name differs = f.node("Xor", {is_less, is_b_less});
  const Name is_zero = f.node("Equal", {rest, zero});
  return {rest, f.node("And", {differs, f.node("Not", {is_zero})})};
}

Name remainder_node(const FormulaCall& f) {
  const auto [left, differs] = rest(f);
  return f.node("Where", {differs, f.to.sum(left, f.x[1]), left});
}

Name floor_divide_node(const FormulaCall& f) {
  const auto [left, differs] = rest(f);
  const Name truncated = f.node("Div", {f.node("Sub", {f.x[0], left}), f.x[1]});
  const Name less = f.node("Sub", {truncated, f.number(1)});
  const Name y = f.node("Round", {f.node("Where", {differs, less, truncated})});
  const Name is_zero = f.node("Equal", {f.x[1], f.number(0)});
  return f.node("Where", {is_zero, f.node("Div", f.x), y});
}

// True also for -0, whose reciprocal is negative.
Name has_minus(const FormulaCall& f, const Name& a) {
  const Name is_zero = f.node("Equal", {a, f.number(0)});
  const Name known = f.node("Where", {is_zero, f.node("Reciprocal", {a}), a});
  return f.node("Less", {known, f.number(0)});
}

// atan(a / b), turned by half a circle to the side of a where b has a minus. Where a / b would be
// NaN of numbers: of infinities their signs count, and of zeros a.
Name atan2_node(const FormulaCall& f) {
  constexpr double pi = std::numbers::pi;
  const Name are_infinite = f.node("And", {f.node("IsInf", {f.x[0]}), f.node("IsInf", {f.x[1]})});
  const auto finite = [&](const Name& x) {
    return f.node("Where", {are_infinite, f.node("Sign", {x}), x});
  };
  const Name a = finite(f.x[0]), b = finite(f.x[1]);
  const Name zero = f.number(0);
  const Name are_zero = f.node("And", {f.node("Equal", {a, zero}), f.node("Equal", {b, zero})});
  const Name angle = f.node("Atan", {f.node("Where", {are_zero, a, f.node("Div", {a, b})})});
  const Name half = f.node("Where", {has_minus(f, a), f.number(-pi), f.number(pi)});
  return f.node("Where", {has_minus(f, b), f.to.sum(angle, half), angle});
}

using OfFormula = Name (*)(const FormulaCall& f);

// The nodes of formulas that are not ONNX's operator of the list with the same operands.
const std::map<std::string_view, OfFormula>& special_formulas() {
  static const std::map<std::string_view, OfFormula> all{
      {"log1p", log1p_node},
      {"expm1", expm1_node},
      {"rsqrt", [](const FormulaCall& f) { return f.node("Reciprocal", {f.node("Sqrt", f.x)}); }},
      {"square", [](const FormulaCall& f) { return f.to.multiply(f.x[0], f.x[0]); }},
      {"softplus", softplus_formula},
      {"hard_sigmoid",
       [](const FormulaCall& f) {
         return f.node("HardSigmoid", f.x, {{"alpha", f.scalars[0]}, {"beta", f.scalars[1]}});
       }},
      {"elu",
       [](const FormulaCall& f) {
         return f.node("Elu", f.x, {{"alpha", f.scalars[0]}});
       }},
      {"celu",
       [](const FormulaCall& f) {
         return f.node("Celu", f.x, {{"alpha", f.scalars[0]}});
       }},
      // Mish is an operator from opset 18 on.
      {"mish",
       [](const FormulaCall& f) {
         return f.to.multiply(f.x[0], f.node("Tanh", {softplus(f, f.x[0])}));
       }},
      {"log_sigmoid",
       [](const FormulaCall& f) { return f.node("Neg", {softplus(f, f.node("Neg", f.x))}); }},
      {"clamp", clip_node},
      {"threshold",
       [](const FormulaCall& f) {
         const Name is_less = f.node("LessOrEqual", {f.x[0], f.number(f.scalars[0])});
         return f.node("Where", {is_less, f.number(f.scalars[1]), f.x[0]});
       }},
      {"shrink", shrink_node},
      {"pow_scalar",
       [](const FormulaCall& f) {
         return f.node("Pow", {f.x[0], f.number(f.scalars[0])});
       }},
      {"add_scalar", [](const FormulaCall& f) { return f.to.sum(f.x[0], f.number(f.scalars[0])); }},
      {"rsub",
       [](const FormulaCall& f) {
         return f.node("Sub", {f.number(f.scalars[0]), f.x[0]});
       }},
      {"div_scalar",
       [](const FormulaCall& f) {
         return f.node("Div", {f.x[0], f.number(f.scalars[0])});
       }},
      {"rdiv",
       [](const FormulaCall& f) {
         return f.node("Div", {f.number(f.scalars[0]), f.x[0]});
       }},
      {"not_equal", not_equal_node},
      {"remainder", remainder_node},
      {"floor_divide", floor_divide_node},
      {"atan2", atan2_node},
      {"where",
       [](const FormulaCall& f) {
         return f.node("Where", {f.truth(f.x[0]), f.x[1], f.x[2]});
       }},
  };
  return all;
}

// Formulas without a gradient give 0 or 1 for ONNX's false or true, and logical ones take these.
Name node_of(const FormulaCall& f, Formula which) {
  const FormulaInfo& info = info_of(which);
  const auto special = special_formulas().find(info.name);
  if (special != special_formulas().end()) return special->second(f);
  check(
      !info.onnx.empty(),
      "the formula {} has no counterpart in ONNX: expected another one, or ops that it is made of",
      info.name);
  if (info.is_differentiable()) return f.node(info.onnx, f.x);
  std::vector<Name> inputs = f.x;
  const bool is_logical = info.name.starts_with("logical_");
  if (is_logical)
    for (Name& each : inputs) each = f.truth(each);
  return f.from_truth(f.node(info.onnx, inputs));
}

// The dimension of x that d is.
int64_t axis_of(const Shape& x, const Dimension& d) {
  int axis = 0;
  while (x[axis] != d.size || x.numel(axis + 1, x.rank()) != d.inner) ++axis;
  return axis;
}

// A query sees its own entry and those before it.
Name softmax_node(OnnxTrace& to, const View& x, const Dimension& d, const SoftmaxOptions& options) {
  check(!options.lengths.data,
        "attention to keys of different numbers has no counterpart in ONNX: expected no lengths");
  Name scores = to.in(x);
  if (options.scale != 1) scores = to.multiply(scores, options.scale);
  if (options.queries > 0) {
    const OnnxTrace::FreeShape shape = to.free_shape(x.shape);
    const int rank = x.shape.rank();
    const auto last = [&](const Shape& of) { return Shape{of[rank - 2], of[rank - 1]}; };
    scores = to.sum(scores, to.unseen_from(1, {last(shape.shape), last(shape.before)}));
  }
  const bool is_log = options.result == SoftmaxResult::logarithms;
  return to.graph.add(is_log ? "LogSoftmax" : "Softmax", {scores}, {{"axis", axis_of(x.shape, d)}});
}

// x with its last two dimensions exchanged, if it is read so
Name factor(OnnxTrace& to, const View& x, Transpose op) {
  if (op == Transpose::no) return to.in(x);
  Integers order;
  for (int d = 0; d < x.shape.rank(); ++d) order.push_back(d);
  std::swap(order[order.size() - 2], order.back());
  return to.transposed(to.in(x), order);
}

}  // namespace

bool add_general(OnnxTrace& to, const KernelCall& call) {
  return call.is<cpu::elementwise_forward>(
             [&](const View& y, const View& a, const View& b, const View& c, const Calculation& f) {
               FormulaCall made{to, {}, f.scalars};
               const View operands[]{a, b, c};
               for (int i = 0; i < info_of(f.formula).operands; ++i)
                 made.x.push_back(to.in(operands[i]));
               to.define(y, node_of(made, f.formula));
             }) ||
         call.is<cpu::softmax>(
             [&](const View& y, const View& x, const Dimension& d, const SoftmaxOptions& options) {
               to.define(y, softmax_node(to, x, d, options));
             }) ||
         call.is<cpu::cumsum>([&](const GradTarget& y, const View& x, const Dimension& d,
                                  Direction) {
           to.define(y, to.graph.add("CumSum", {to.in(x), to.graph.integer(axis_of(x.shape, d))}));
         }) ||
         call.is<cpu::one_hot>([&](const View& y, const View& index) {
           // Unlike OneHot, which counts negative numbers from the end.
           Integers classes;
           for (int64_t k = 0; k < y.shape[1]; ++k) classes.push_back(k);
           const Name column = to.graph.add("Unsqueeze", {to.in(index), to.graph.integers({1})});
           const Name is_class = to.graph.add(
               "Equal", {to.cast(column, onnx::TensorProto::INT64), to.graph.integers(classes)});
           to.define(y, to.cast(is_class, onnx::TensorProto::FLOAT));
         }) ||
         call.is<cpu::batched_matmul>([&](const GradTarget& c, const View& a, const View& b,
                                          const Batches&, Transpose a_op, Transpose b_op,
                                          const View&) {
           to.define(c, to.graph.add("MatMul", {factor(to, a, a_op), factor(to, b, b_op)}));
         });
}

}  // namespace accrue
