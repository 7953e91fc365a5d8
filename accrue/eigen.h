#pragma once

// Tensors on the cpu as Eigen's matrices without a copy, and Eigen's expressions as tensors.
// accrue.h does not include this, and accrue's libraries do not need it: your build must find Eigen
// 3.4 (Debian: libeigen3-dev; CMake: Eigen3::Eigen).
//
//     as_matrix<float>(y) = as_matrix<float>(x) * as_matrix<float>(w).transpose();

#if !__has_include(<Eigen/Core>)
#error "accrue/eigen.h needs Eigen 3.4 (Debian: libeigen3-dev); with CMake, link to Eigen3::Eigen"
#endif
#include <Eigen/Core>
#include <type_traits>

#include "core/error.h"
#include "core/tensor.h"

namespace accrue {

// A const T makes the view read-only.
template <class T, class Plain>
using EigenView = Eigen::Map<std::conditional_t<std::is_const_v<T>, const Plain, Plain>>;
template <class T>
using MatrixView = EigenView<
    T, Eigen::Matrix<std::remove_const_t<T>, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>;
template <class T>
using VectorView = EigenView<T, Eigen::Matrix<std::remove_const_t<T>, Eigen::Dynamic, 1>>;
template <class T>
using ArrayView = EigenView<T, Eigen::Array<std::remove_const_t<T>, Eigen::Dynamic, 1>>;

// The elements for such a view. Throws Error unless x is a T tensor on Device::cpu that has
// elements.
template <class T>
T* eigen_elements(const Tensor& x) {
  static_assert(std::is_arithmetic_v<T>,
                "Eigen views have elements float, double, int32_t or uint8_t: as_f32() makes float "
                "of 16 bits");
  return x.span<std::remove_const_t<T>>().data();
}

// The views below share the tensor's elements, so its storage must outlive them. Writes through a
// view are not recorded for differentiation.

// m(r, c) = x[r, c] for x [R, C]. T is float, double, int32_t or uint8_t, const or not. Throws
// Error unless x is a T tensor on Device::cpu that has elements and two dimensions.
template <class T>
MatrixView<T> as_matrix(const Tensor& x) {
  detail::check(x.shape().rank() == 2,
                "a tensor {} {} is no matrix: expected two dimensions, which reshape() gives it",
                detail::name(x.dtype()), x.shape());
  return {eigen_elements<T>(x), x.size(0), x.size(1)};
}

// v(n) = x[n] for x [N], a column. Throws Error like as_matrix(), except that x has one dimension.
template <class T>
VectorView<T> as_vector(const Tensor& x) {
  detail::check(x.shape().rank() == 1,
                "a tensor {} {} is no vector: expected one dimension, which reshape() gives it",
                detail::name(x.dtype()), x.shape());
  return {eigen_elements<T>(x), x.size(0)};
}

// a(i) = the i-th element of x of any shape, in row-major order, for elementwise formulas. Throws
// Error unless x is a T tensor on Device::cpu that has elements.
template <class T>
ArrayView<T> as_array(const Tensor& x) {
  return {eigen_elements<T>(x), x.numel()};
}

// A tensor with the values of a matrix, an array or an expression: y[r, c] = x(r, c). Its shape is
// [rows, columns], or [size] if the type of x is a vector. Its dtype is the scalar type of x;
// .cast<float>() changes that. An expression is computed directly into the tensor. An Eigen matrix
// is copied, because a tensor owns its storage; to avoid the copy, create the tensor first and
// write through as_matrix(). Throws OutOfMemory.
template <class Expression>
Tensor tensor_of(const Eigen::DenseBase<Expression>& x, Device device = Device::cpu,
                 Category category = Category::data) {
  using T = typename Expression::Scalar;
  const Shape shape =
      Expression::IsVectorAtCompileTime ? Shape{x.size()} : Shape{x.rows(), x.cols()};
  const Tensor y = Tensor::empty(shape, detail::dtype_of<T>(), Device::cpu, category);
  MatrixView<T> values(eigen_elements<T>(y), x.rows(), x.cols());
  if constexpr (std::is_base_of_v<Eigen::ArrayBase<Expression>, Expression>)
    values.array() = x.derived();
  else values.noalias() = x.derived();
  return device == Device::cpu ? y : y.to(device, category);
}

}  // namespace accrue
