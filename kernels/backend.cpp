#include "kernels/backend.h"

#include "kernels/quantized_matmul.h"

namespace accrue {

Tensor empty_result(const Shape& shape, DType dtype, Device device) {
  return result_is_unread() ? Tensor::without_elements(shape, dtype, device)
                            : Tensor::empty(shape, dtype, device);
}

std::optional<GradTarget> claim_grad_over_value(const Edge& edge, Tensor& x) {
  return x.sole_owner() ? claim_grad_over(edge, x) : claim_grad(edge);
}

std::pair<std::optional<GradTarget>, std::optional<GradTarget>> claim_grads_over_values(
    const Edge& a_edge, const Tensor& a, const Edge& b_edge, const Tensor& b) {
  if (a.sole_owner()) offer_buffer(a_edge, a);
  if (b.sole_owner()) offer_buffer(b_edge, b);
  return claim_grads(a_edge, b_edge);
}

void check_same(std::string_view op, std::initializer_list<const Tensor*> tensors) {
  const Tensor& first = **tensors.begin();
  for (const Tensor* tensor : tensors) {
    check(tensor->defined(), "[{}] an operand is undefined", op);
    check(tensor->device() == first.device(), "[{}] operands on {} and {}", op,
          name(first.device()), name(tensor->device()));
    check(tensor->dtype() == first.dtype(), "[{}] operands of {} {} and {} {}", op,
          name(first.dtype()), first.shape(), name(tensor->dtype()), tensor->shape());
  }
  check(is_floating(first.dtype()), "[{}] operands of {} {}: expected a floating dtype", op,
        name(first.dtype()), first.shape());
}

void detail::check_weight(std::string_view op, const Tensor& x, const Tensor& w,
                          const Tensor& parameter) {
  if (!w.defined() || !is_stored_otherwise(w.shape(), w.dtype(), x.dtype()))
    return check_same(op, {&x, &w});
  check_same(op, {&x});
  const Shape shape = matrix_shape(w.shape());
  check(w.device() == x.device() && is_stored_type(w.dtype()) && shape.rank() == 2 &&
            shape[1] % block_elements(w.dtype()) == 0 && !Edge(parameter).wants_grad(),
        "[{}] x {} {} on {} and w {} {} on {}: expected a matrix of that dtype there, or one that "
        "wants no gradient, of numbers of 16 or 32 bits or of quantized blocks that fill its rows",
        op, name(x.dtype()), x.shape(), name(x.device()), name(w.dtype()), w.shape(),
        name(w.device()));
}

}  // namespace accrue
