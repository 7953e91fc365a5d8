#pragma once

#include <utility>

#include "kernels/arithmetic.h"
#include "kernels/elementwise.h"

namespace accrue {

// Formulas of tensors as C++ writes them, with broadcasting: (a - b) / c * 2. Tensors are compared
// by less(a, b) and its like (kernels/elementwise.h), not by operators.

inline Tensor operator+(Tensor a, const Tensor& b) { return add(std::move(a), b); }
inline Tensor operator+(Tensor a, double b) { return add_scalar(std::move(a), b); }
inline Tensor operator+(double a, Tensor b) { return add_scalar(std::move(b), a); }

inline Tensor operator-(Tensor a, Tensor b) { return sub(std::move(a), std::move(b)); }
inline Tensor operator-(Tensor a, double b) { return add_scalar(std::move(a), -b); }
inline Tensor operator-(double a, Tensor b) { return rsub(std::move(b), a); }
inline Tensor operator-(Tensor a) { return neg(std::move(a)); }

inline Tensor operator*(Tensor a, const Tensor& b) { return mul(std::move(a), b); }
inline Tensor operator*(Tensor a, double b) { return scale(std::move(a), b); }
inline Tensor operator*(double a, Tensor b) { return scale(std::move(b), a); }

inline Tensor operator/(Tensor a, Tensor b) { return div(std::move(a), std::move(b)); }
inline Tensor operator/(Tensor a, double b) { return div_scalar(std::move(a), b); }
inline Tensor operator/(double a, Tensor b) { return rdiv(std::move(b), a); }

}  // namespace accrue
