#include "accrue/eigen.h"

#include <Eigen/SVD>

#include "core/autograd.h"
#include "core/random.h"
#include "kernels/linear.h"
#include "kernels/spectral_norm.h"
#include "tests/support/catch.h"
#include "tests/support/op_table.h"

namespace accrue::test {
namespace {

// A tensor f64 [rows, columns] of numbers in [-1, 1).
Tensor random_matrix(int64_t rows, int64_t columns, uint64_t seed) {
  RandomStream random(seed);
  return tensor_of(
      Eigen::MatrixXd::NullaryExpr(rows, columns, [&] { return double(random.uniform(-1, 1)); }));
}

}  // namespace

TEST_CASE("a tensor is a matrix of Eigen's without a copy", "[eigen]") {
  const Tensor x = Tensor::from<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  const MatrixView<float> m = as_matrix<float>(x);
  REQUIRE((m.rows() == 2 && m.cols() == 3 && m(0, 2) == 3 && m(1, 0) == 4));
  REQUIRE(m.data() == x.span<float>().data());
  as_matrix<float>(x).col(1) *= 10;
  REQUIRE(std::ranges::equal(x.span<float>(), std::vector<float>{1, 20, 3, 4, 50, 6}));
  // A slice is a view of its rows. A product is written straight into its target.
  REQUIRE(as_matrix<const float>(x.slice(1, 2))(0, 1) == 50);
  const Tensor y = Tensor::full({2, 2}, 0, DType::f32, Device::cpu);
  as_matrix<float>(y) = as_matrix<const float>(x) * as_matrix<const float>(x).transpose();
  REQUIRE(std::ranges::equal(y.span<float>(), std::vector<float>{410, 1022, 1022, 2552}));
  static_assert(!std::is_assignable_v<decltype(m(0, 0)), float>);
  static_assert(!std::is_assignable_v<decltype(as_array<const int32_t>(x)(0)), int32_t>);
}

TEST_CASE("tensors of other types and shapes have views, too", "[eigen]") {
  const Tensor labels = Tensor::from<int32_t>({3, 1, 2}, {3});
  REQUIRE(as_vector<int32_t>(labels).sum() == 6);
  as_vector<int32_t>(labels)(0) = 7;
  REQUIRE(labels.span<int32_t>()[0] == 7);
  const Tensor pixels = Tensor::from<uint8_t>({1, 2, 3, 4, 5, 6, 7, 8}, {2, 1, 2, 2});
  REQUIRE((as_array<const uint8_t>(pixels).cast<int>() > 4).count() == 4);
  REQUIRE(as_matrix<const uint8_t>(pixels.reshape({2, 4}))(1, 0) == 5);
  const Tensor scalar = Tensor::full({}, 2, DType::f64, Device::cpu);
  REQUIRE(as_array<double>(scalar).square()(0) == 4);
}

TEST_CASE("what is no matrix of that kind is refused", "[eigen]") {
  const Tensor x = Tensor::full({2, 3}, 1, DType::f32, Device::cpu);
  REQUIRE_ERROR(as_vector<float>(x), "a tensor f32 [2, 3] is no vector: expected one dimension");
  REQUIRE_ERROR(as_matrix<float>(x.reshape({6})), "a tensor f32 [6] is no matrix: expected two");
  REQUIRE_ERROR(as_matrix<double>(x), "span<double>() of a tensor f32 [2, 3]: expected");
  REQUIRE_ERROR(as_matrix<const int32_t>(x), "expected span<float>()");
  for (const Device device : {Device::meta, Device::meta_cuda})
    REQUIRE_ERROR(as_array<float>(Tensor::full({2}, 1, DType::f32, device)),
                  "cannot be read on the host");
  REQUIRE_ERROR(as_array<float>(Tensor::without_elements({2}, DType::f32, Device::cpu)),
                "without elements");
}

TEST_CASE("what Eigen computes becomes a tensor", "[eigen]") {
  Eigen::MatrixXd m(2, 3);  // by columns, as Eigen's are unless asked otherwise
  m << 1, 2, 3, 4, 5, 6;
  const Tensor x = tensor_of(m);
  REQUIRE((x.shape() == Shape{2, 3} && x.dtype() == DType::f64));
  REQUIRE(std::ranges::equal(x.span<double>(), std::vector<double>{1, 2, 3, 4, 5, 6}));
  m(0, 0) = 9;
  REQUIRE(x.span<double>()[0] == 1);  // a copy

  const Tensor f = tensor_of((2 * m.array() + 1).cast<float>());
  REQUIRE((f.shape() == Shape{2, 3} && f.dtype() == DType::f32 && f.span<float>()[5] == 13));
  const Tensor product = tensor_of(m * m.transpose());
  REQUIRE((product.shape() == Shape{2, 2} && product.span<double>()[3] == 77));
  REQUIRE(tensor_of(m.colwise().sum()).shape() == Shape{3});
  REQUIRE(tensor_of(m.rowwise().sum()).shape() == Shape{2});
  REQUIRE(tensor_of(m.col(1).array()).shape() == Shape{2});
  REQUIRE(tensor_of(m.leftCols(1)).shape() == Shape{2, 1});
  REQUIRE(tensor_of(Eigen::VectorXi::LinSpaced(4, 0, 3)).dtype() == DType::i32);
  const Tensor mask = tensor_of((m.array() > 3).cast<uint8_t>());
  REQUIRE((mask.dtype() == DType::u8 && as_array<uint8_t>(mask).cast<int>().sum() == 4));

  const Tensor predicted = tensor_of(m, Device::meta, Category::parameters);
  REQUIRE((predicted.device() == Device::meta && predicted.shape() == Shape{2, 3}));
  // A matrix goes to a tensor and back.
  REQUIRE(as_matrix<const double>(tensor_of(m)) == m);
}

TEST_CASE("Eigen judges a gradient that accumulates", "[eigen]") {
  const Tensor x = random_matrix(5, 7, 1), w = require_grad(random_matrix(3, 7, 2));
  const Tensor y = linear(x, w, {}, Activation::none);
  REQUIRE(as_matrix<const double>(y).isApprox(as_matrix<const double>(x) *
                                              as_matrix<const double>(w).transpose()));
  backward_of_sum(y);
  backward_of_sum(linear(x, w, {}, Activation::none));  // dw += dy^T x
  const Eigen::MatrixXd dy = Eigen::MatrixXd::Constant(5, 3, 2);
  REQUIRE(as_matrix<const double>(grad(w)).isApprox(dy.transpose() * as_matrix<const double>(x)));
}

TEST_CASE("Eigen judges the largest singular value", "[eigen]") {
  const Tensor w = random_matrix(4, 6, 3), u = tensor_of(Eigen::VectorXd::Ones(4)),
               v = tensor_of(Eigen::VectorXd::Zero(6));
  for (int i = 0; i < 1000; ++i) power_iteration(u, v, w);
  const Eigen::MatrixXd matrix = as_matrix<const double>(w);
  const double sigma = Eigen::JacobiSVD<Eigen::MatrixXd>(matrix).singularValues()(0);
  const NoGrad no_grad;
  REQUIRE(as_matrix<const double>(spectral_normalize(w, u, v)).isApprox(matrix / sigma));
}

}  // namespace accrue::test
