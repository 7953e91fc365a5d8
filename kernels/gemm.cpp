#include "kernels/gemm.h"

#include <Eigen/Core>

#include "kernels/backend.h"

#ifdef ACCRUE_HAS_ONEDNN
#include <oneapi/dnnl/dnnl.h>
#endif

namespace accrue::cpu {
namespace {

template <class T, int order>
using Matrix = Eigen::Map<const Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, order>>;

template <class T>
void eigen_gemm(T* c, const T* a, const T* b, int64_t M, int64_t N, int64_t K, Transpose a_op,
                Transpose b_op, float beta) {
  using Eigen::ColMajor, Eigen::RowMajor;
  Eigen::Map<Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, RowMajor>> C(c, M, N);
  if (beta == 0) C.setZero();
  const bool at = a_op == Transpose::yes, bt = b_op == Transpose::yes;
  if (!at && !bt) C.noalias() += Matrix<T, RowMajor>(a, M, K) * Matrix<T, RowMajor>(b, K, N);
  if (!at && bt) C.noalias() += Matrix<T, RowMajor>(a, M, K) * Matrix<T, ColMajor>(b, K, N);
  if (at && !bt) C.noalias() += Matrix<T, ColMajor>(a, M, K) * Matrix<T, RowMajor>(b, K, N);
  if (at && bt) C.noalias() += Matrix<T, ColMajor>(a, M, K) * Matrix<T, ColMajor>(b, K, N);
}

}  // namespace

template <>
void gemm(double* c, const double* a, const double* b, int64_t M, int64_t N, int64_t K,
          Transpose a_op, Transpose b_op, float beta) {
  eigen_gemm(c, a, b, M, N, K, a_op, b_op, beta);
}

template <>
void gemm(float* c, const float* a, const float* b, int64_t M, int64_t N, int64_t K, Transpose a_op,
          Transpose b_op, float beta) {
#ifdef ACCRUE_HAS_ONEDNN
  const bool at = a_op == Transpose::yes, bt = b_op == Transpose::yes;
  const auto status = dnnl_sgemm(at ? 'T' : 'N', bt ? 'T' : 'N', M, N, K, 1.0f, a, at ? M : K, b,
                                 bt ? K : N, beta, c, N);
  check(status == dnnl_success, "[gemm] oneDNN refused {}x{}x{} with status {}", M, N, K,
        static_cast<int>(status));
#else
  eigen_gemm(c, a, b, M, N, K, a_op, b_op, beta);
#endif
}

}  // namespace accrue::cpu
