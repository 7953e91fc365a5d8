#include "product.h"

#include <Eigen/Core>

namespace simt {

template <class T>
void add_product(int64_t m, int64_t n, int64_t k, Factor<T> a, Factor<T> b, T* c) {
  using Rows = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  using Matrix = Eigen::Map<const Rows>;
  Eigen::Map<Rows> sum(c, m, n);
  const Matrix a_rows(a.values, a.transposed ? k : m, a.transposed ? m : k);
  const Matrix b_rows(b.values, b.transposed ? n : k, b.transposed ? k : n);
  if (a.transposed && b.transposed) sum.noalias() += a_rows.transpose() * b_rows.transpose();
  else if (a.transposed) sum.noalias() += a_rows.transpose() * b_rows;
  else if (b.transposed) sum.noalias() += a_rows * b_rows.transpose();
  else sum.noalias() += a_rows * b_rows;
}

template void add_product(int64_t, int64_t, int64_t, Factor<float>, Factor<float>, float*);
template void add_product(int64_t, int64_t, int64_t, Factor<double>, Factor<double>, double*);

}  // namespace simt
