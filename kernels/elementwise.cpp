#include "kernels/elementwise.h"

#include <algorithm>
#include <vector>

#include "kernels/detail/elementwise_functions.h"
#include "kernels/detail/elementwise_kernels.h"

namespace accrue {
namespace {

template <class F>
FormulaInfo info_with(FormulaInfo info) {
  info.operands = F::operands;
  std::ranges::copy(F::reads, info.reads.begin());
  return info;
}

std::vector<FormulaInfo> make_infos() {
#define ACCRUE_UNARY_INFO(name, onnx, scalars, ...) \
  info_with<formula_list::name>({Formula::name, #name, onnx, 1, {{ACCRUE_SCALAR_INFOS_##scalars}}}),
#define ACCRUE_INFO(name, onnx, ...) \
  info_with<formula_list::name>({Formula::name, #name, onnx, 1, {}}),
  return {ACCRUE_FORMULAS(ACCRUE_UNARY_INFO, ACCRUE_INFO, ACCRUE_INFO)};
#undef ACCRUE_UNARY_INFO
#undef ACCRUE_INFO
}

size_t operand_count(const FormulaInfo& info) { return static_cast<size_t>(info.operands); }

bool reads_operand(unsigned read, size_t k) {
  constexpr unsigned bits[] = {formula_list::reads_a, formula_list::reads_b, formula_list::reads_c};
  return read & bits[k];
}
bool reads_result(unsigned read) { return read & formula_list::reads_y; }

bool has_gradient(const FormulaInfo& info, size_t operand) {
  return !(info.reads[operand] & formula_list::has_no_gradient);
}

// The first operand that has the dtype of the result; a condition may have integers.
size_t first_number(const FormulaInfo& info) { return info.formula == Formula::where ? 1 : 0; }

bool is_of_integers(const Tensor& x) {
  return x.defined() && (x.dtype() == DType::i32 || x.dtype() == DType::u8);
}

// The dtype of the results: a 16-bit one beside parameters in float32.
DType dtype_of_result(std::span<const Tensor> operands) {
  for (const Tensor& x : operands)
    if (x.defined() && is_16_bit_dtype(x.dtype())) return x.dtype();
  return operands[0].defined() ? operands[0].dtype() : DType::f32;
}

// Replaces parameters by the copies that are read, and returns the shape of the result.
Shape check_operands(const FormulaInfo& info, std::array<Tensor, 3>& x) {
  const size_t count = operand_count(info);
  for (size_t k = count; k < x.size(); ++k)
    check(!x[k].defined(), "[{}] operand number {} came: expected {}", info.name, k + 1, count);
  const size_t numbers = is_of_integers(x[0]) ? first_number(info) : 0;
  const DType dtype = dtype_of_result(std::span(x).first(count).subspan(numbers));
  for (Tensor& operand_k : std::span(x).first(count).subspan(numbers)) {
    if (operand_k.defined() && operand_k.dtype() != dtype) operand_k = operand(operand_k, dtype);
    check_same(info.name, {&x[numbers], &operand_k});
  }
  check(x[0].device() == x[numbers].device(), "[{}] the condition on {}, a number on {}", info.name,
        name(x[0].device()), name(x[numbers].device()));
  Shape shape = x[0].shape();
  for (size_t k = 1; k < count; ++k) {
    const auto both = broadcast_shape(shape, x[k].shape());
    check(both.has_value(),
          "[{}] a {} and {} {}: expected shapes that can be broadcast, with sizes that agree or "
          "are 1 from the last dimension on",
          info.name, shape, k == 1 ? "b" : "c", x[k].shape());
    shape = *both;
  }
  return shape;
}

Calculation calculation_of(const FormulaInfo& info, const std::vector<double>& scalars) {
  Calculation f{info.formula, {info.scalars[0].value, info.scalars[1].value}};
  const auto most = static_cast<size_t>(
      std::ranges::count_if(info.scalars, [](const auto& s) { return !s.name.empty(); }));
  check(scalars.size() <= most, "[{}] {} scalars came: expected at most {}", info.name,
        scalars.size(), most);
  std::ranges::copy(scalars, f.scalars);
  return f;
}

View view_of(const Tensor& x) { return x.defined() ? x.view() : View{}; }

// An op between its forward and its backward.
struct Recorded {
  const FormulaInfo& info;
  Calculation f;
  std::array<Edge, 3> edges;
  std::array<Tensor, 3> x = {};
  Tensor y = {};

  // The operands whose gradient is wanted. Operands of y's shape come last: the last gradient may
  // go over dy.
  std::vector<size_t> wanted(const Shape& shape) const {
    std::vector<size_t> operands;
    for (size_t k = 0; k < operand_count(info); ++k)
      if (has_gradient(info, k) && edges[k].wants_grad()) operands.push_back(k);
    std::ranges::stable_partition(operands, [&](size_t k) { return edges[k].shape() != shape; });
    return operands;
  }
  // The values that the gradients of these operands read.
  unsigned read_for(std::span<const size_t> operands) const {
    unsigned read = 0;
    for (const size_t k : operands) read |= info.reads[k];
    return read;
  }
  void keep(unsigned read) {
    for (size_t k = 0; k < x.size(); ++k)
      if (!reads_operand(read, k)) x[k].reset();
    if (!reads_result(read)) y.reset();
  }
  void backward(Tensor& dy) {
    const std::vector<size_t> operands = wanted(dy.shape());
    for (size_t i = 0; i < operands.size(); ++i) {
      const size_t k = operands[i];
      keep(read_for(std::span(operands).subspan(i)));
      const bool is_last = i + 1 == operands.size();
      if (auto dx = is_last ? claim_grad_over(edges[k], dy) : claim_grad(edges[k])) {
        const BroadcastSums sums(edges[k].shape(), dy.shape(), dy.device());
        const unsigned read = info.reads[k];
        const auto value = [&](size_t of) {
          return reads_operand(read, of) ? x[of].view() : View{};
        };
        const KeptValues values{value(0), value(1), value(2),
                                reads_result(read) ? y.view() : View{}};
        launch<cpu::elementwise_backward, cuda::elementwise_backward>(
            dy.device(), *dx, dy.view(), values, sums.scratch(dy.device()).view(), f,
            static_cast<int>(k));
      }
    }
  }
};

// y, over an operand if that has its shape and is neither shared nor read any more.
Tensor result_for(std::span<const Tensor> operands, const Tensor& like, const Shape& shape,
                  unsigned read) {
  for (size_t k = 0; k < operands.size(); ++k) {
    const Tensor& x = operands[k];
    if (x.defined() && x.sole_owner() && x.shape() == shape && x.dtype() == like.dtype() &&
        !reads_operand(read, k))
      return x.detach();
  }
  return reads_result(read) ? Tensor::empty(shape, like.dtype(), like.device())
                            : empty_result(shape, like.dtype(), like.device());
}

}  // namespace

const std::vector<FormulaInfo>& detail::all_formulas() {
  static const std::vector<FormulaInfo> infos = make_infos();
  return infos;
}

const FormulaInfo& detail::info_of(Formula formula) {
  return all_formulas()[static_cast<size_t>(formula)];
}

bool detail::FormulaInfo::is_differentiable() const {
  for (size_t k = 0; k < operand_count(*this); ++k)
    if (has_gradient(*this, k)) return true;
  return false;
}

Tensor apply(Formula formula, std::array<Tensor, 3> x, const std::vector<double>& scalars) {
  const FormulaInfo& info = info_of(formula);
  Recorded op{info, calculation_of(info, scalars), {x[0], x[1], x[2]}};
  const Shape shape = check_operands(info, x);
  const std::vector<size_t> wanted = op.wanted(shape);
  const unsigned read = op.read_for(wanted);
  Tensor y = result_for(x, x[first_number(info)], shape, read);
  if (!result_is_unread() || reads_result(read))
    launch<cpu::elementwise_forward, cuda::elementwise_forward>(y.device(), y.view(), view_of(x[0]),
                                                                view_of(x[1]), view_of(x[2]), op.f);
  std::vector<Edge> edges;
  for (size_t k = 0; k < operand_count(info); ++k)
    if (has_gradient(info, k)) edges.push_back(op.edges[k]);
  for (size_t k = 0; k < operand_count(info); ++k)
    if (reads_operand(read, k)) op.x[k] = x[k].saved();
  if (reads_result(read)) op.y = y.saved();
  record(info.name, y, edges, [op = std::move(op)](Tensor& dy) mutable { op.backward(dy); });
  return y;
}

Tensor pow(Tensor x, double exponent) {
  if (exponent == 2) return square(std::move(x));
  if (exponent == 0.5) return sqrt(std::move(x));
  if (exponent == -1) return reciprocal(std::move(x));
  return pow_scalar(std::move(x), exponent);
}

}  // namespace accrue
