#include "kernels/gemm.h"

#include <Eigen/Core>
#include <array>
#include <numeric>

#include "kernels/backend.h"
#include "kernels/indirect_gemm.h"

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

// The weight gradient of a small micro-batch, C[m, n] += sum_k A[k, m] B[k, n] with few k, is bound
// by the traffic of C. Each thread here has the same rows of C in every call, which then stay in
// its own cache from one micro-batch to the next.
constexpr int64_t few_terms = 8, rows_at_once = 32;

bool is_small_weight_gradient(int64_t N, int64_t K, Transpose a_op, Transpose b_op) {
  return a_op == Transpose::yes && b_op == Transpose::no && K <= few_terms && N % lanes<float> == 0;
}

void small_weight_gradient(float* c, const float* a, const float* b, int64_t M, int64_t N,
                           int64_t K, float beta) {
  std::array<int32_t, rows_at_once> a_row;
  std::array<int32_t, few_terms> a_col, b_row;
  std::iota(a_row.begin(), a_row.end(), 0);
  for (int64_t k = 0; k < K; ++k) {
    a_col[static_cast<size_t>(k)] = static_cast<int32_t>(k * M);
    b_row[static_cast<size_t>(k)] = static_cast<int32_t>(k * N);
  }
  parallel_for(M, N, [&](int64_t begin, int64_t end) {
    for (int64_t m = begin; m < end; m += rows_at_once) {
      const int64_t rows = std::min(rows_at_once, end - m);
      indirect_gemm(c + m * N, a + m, b, {rows, N, K, a_row.data(), a_col.data(), b_row.data()},
                    beta == 0 ? Result::write : Result::add);
    }
  });
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
  if (is_small_weight_gradient(N, K, a_op, b_op)) {
    small_weight_gradient(c, a, b, M, N, K, beta);
    return;
  }
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
