// cublasLt against plain loops in double.

#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cmath>

#include "runner.h"

namespace {

struct Matrix {
  cudaDataType_t type = CUDA_R_32F;
  int rows, cols, ld;
  bool row_major = false;
  int64_t batch_stride = 0;

  size_t at(int row, int col) const { return row_major ? row * ld + col : col * ld + row; }
  size_t at(int i, int row, int col) const { return i * batch_stride + at(row, col); }
  size_t size(int batches = 1) const {
    return (batches - 1) * batch_stride + size_t(row_major ? rows : cols) * ld;
  }
};

struct Matmul {
  Matrix a, b, d;
  bool transpose_a = false, transpose_b = false;
  int32_t batches = 1;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  cudaDataType_t scale = CUDA_R_32F;
  uint64_t workspace_bytes = 0;
  uint32_t alignment = 256;
  uint32_t reduction_mask = CUBLASLT_REDUCTION_SCHEME_MASK;
};

// The library's objects for one product.
class Call {
 public:
  explicit Call(const Matmul& m) {
    const auto compute = m.scale == CUDA_R_64F ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F;
    const int32_t op_a = m.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    const int32_t op_b = m.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    REQUIRE(cublasLtCreate(&handle_) == CUBLAS_STATUS_SUCCESS);
    REQUIRE(cublasLtMatmulDescCreate(&desc_, compute, m.scale) == CUBLAS_STATUS_SUCCESS);
    set(CUBLASLT_MATMUL_DESC_TRANSA, op_a);
    set(CUBLASLT_MATMUL_DESC_TRANSB, op_b);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, m.epilogue);
    a_ = layout(m.a, m.batches);
    b_ = layout(m.b, m.batches);
    d_ = layout(m.d, m.batches);
    REQUIRE(cublasLtMatmulPreferenceCreate(&preference_) == CUBLAS_STATUS_SUCCESS);
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, m.workspace_bytes);
    prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, m.reduction_mask);
    for (const auto attr :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
      prefer(attr, m.alignment);
    }
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  ~Call() {
    for (const auto layout : {a_, b_, d_}) cublasLtMatrixLayoutDestroy(layout);
    cublasLtMatmulPreferenceDestroy(preference_);
    cublasLtMatmulDescDestroy(desc_);
    cublasLtDestroy(handle_);
  }

  template <class T>
  void set(cublasLtMatmulDescAttributes_t attr, const T& value) {
    REQUIRE(cublasLtMatmulDescSetAttribute(desc_, attr, &value, sizeof(value)) ==
            CUBLAS_STATUS_SUCCESS);
  }

  // Takes the first result whose state is a success.
  cublasStatus_t choose() {
    int found = 0;
    std::vector<cublasLtMatmulHeuristicResult_t> results(4);
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
        handle_, desc_, a_, b_, d_, d_, preference_, 4, results.data(), &found);
    CHECK((found > 0) == (status == CUBLAS_STATUS_SUCCESS));
    results.resize(found);
    unusable_ = 0;
    for (const auto& result : results) {
      choice_ = result;
      if (result.state == CUBLAS_STATUS_SUCCESS) break;
      ++unusable_;
    }
    return status;
  }
  int unusable() const { return unusable_; }

  template <class S>
  cublasStatus_t run(S alpha, const void* a, const void* b, S beta, const void* c, void* d,
                     void* workspace, size_t bytes, cudaStream_t stream = nullptr) {
    return cublasLtMatmul(handle_, desc_, &alpha, a, a_, b, b_, &beta, c, d_, d, d_, &choice_.algo,
                          workspace, bytes, stream);
  }

  size_t workspace_bytes() const { return choice_.workspaceSize; }

 private:
  static cublasLtMatrixLayout_t layout(const Matrix& m, int32_t batches) {
    cublasLtMatrixLayout_t layout = nullptr;
    const int32_t order = m.row_major ? CUBLASLT_ORDER_ROW : CUBLASLT_ORDER_COL;
    REQUIRE(cublasLtMatrixLayoutCreate(&layout, m.type, m.rows, m.cols, m.ld) ==
            CUBLAS_STATUS_SUCCESS);
    REQUIRE(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_ORDER, &order,
                                             sizeof(order)) == CUBLAS_STATUS_SUCCESS);
    if (batches == 1) return layout;
    REQUIRE(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batches,
                                             sizeof(batches)) == CUBLAS_STATUS_SUCCESS);
    REQUIRE(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                             &m.batch_stride,
                                             sizeof(m.batch_stride)) == CUBLAS_STATUS_SUCCESS);
    return layout;
  }
  template <class T>
  void prefer(cublasLtMatmulPreferenceAttributes_t attr, const T& value) {
    REQUIRE(cublasLtMatmulPreferenceSetAttribute(preference_, attr, &value, sizeof(value)) ==
            CUBLAS_STATUS_SUCCESS);
  }

  cublasLtHandle_t handle_ = nullptr;
  cublasLtMatmulDesc_t desc_ = nullptr;
  cublasLtMatrixLayout_t a_ = nullptr, b_ = nullptr, d_ = nullptr;
  cublasLtMatmulPreference_t preference_ = nullptr;
  cublasLtMatmulHeuristicResult_t choice_{};
  int unusable_ = 0;
};

// Eighths of small integers: exact in every format, also in sums of a few products.
template <class T>
std::vector<T> numbers(size_t n, int salt) {
  std::vector<T> values(n);
  for (size_t i = 0; i < n; ++i) values[i] = float((i * 7 + salt) % 17) / 8 - 1;
  return values;
}

// Runs the product and compares it with loops. Every number is exact in double and, as a sum of few
// eighths, in float; D is rounded once more where it is narrower.
template <class In, class Out, class S = float>
void check_product(const Matmul& m, S alpha, S beta) {
  const int M = m.d.rows, N = m.d.cols, K = m.transpose_a ? m.a.rows : m.a.cols;
  const std::vector<In> a = numbers<In>(m.a.size(m.batches), 1),
                        b = numbers<In>(m.b.size(m.batches), 2);
  const std::vector<Out> old = numbers<Out>(m.d.size(m.batches), 3), bias = numbers<Out>(M, 4);
  Array<In> da(a), db(b);
  Array<Out> dd(old), dbias(bias);
  if (beta == 0) REQUIRE(cudaMemset(dd.data(), 0xff, dd.size() * sizeof(Out)) == cudaSuccess);
  Call call(m);
  const bool with_bias = (m.epilogue & CUBLASLT_EPILOGUE_BIAS) != 0;
  if (with_bias)
    call.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<const void*>(dbias.data()));
  REQUIRE(call.choose() == CUBLAS_STATUS_SUCCESS);
  Array<char> workspace(std::max<size_t>(call.workspace_bytes(), 1));
  REQUIRE(call.run(alpha, da.data(), db.data(), beta, dd.data(), dd.data(), workspace.data(),
                   call.workspace_bytes()) == CUBLAS_STATUS_SUCCESS);
  const std::vector<Out> got = dd.read();
  for (int n = 0; n < m.batches; ++n) {
    for (int i = 0; i < M; ++i) {
      for (int j = 0; j < N; ++j) {
        double sum = 0;
        for (int k = 0; k < K; ++k) {
          sum += double(a[m.transpose_a ? m.a.at(n, k, i) : m.a.at(n, i, k)]) *
                 double(b[m.transpose_b ? m.b.at(n, j, k) : m.b.at(n, k, j)]);
        }
        double value = alpha * sum + (beta == 0 ? 0 : beta * double(old[m.d.at(n, i, j)]));
        if (with_bias) value += double(bias[i]);
        if ((m.epilogue & CUBLASLT_EPILOGUE_RELU) != 0) value = std::max(value, 0.0);
        const double got_value = got[m.d.at(n, i, j)];
        if (got_value != double(Out(value))) {
          CAPTURE(n, i, j, value, got_value);
          FAIL("a wrong element");
        }
      }
    }
  }
}

Matmul product(bool transpose_a, bool transpose_b, bool row_major, cudaDataType_t in = CUDA_R_32F,
               cudaDataType_t out = CUDA_R_32F) {
  const int M = 5, N = 4, K = 6;
  const auto matrix = [&](cudaDataType_t type, int rows, int cols) {
    return Matrix{type, rows, cols, (row_major ? cols : rows) + 3, row_major};
  };
  Matmul m{transpose_a ? matrix(in, K, M) : matrix(in, M, K),
           transpose_b ? matrix(in, N, K) : matrix(in, K, N), matrix(out, M, N)};
  m.transpose_a = transpose_a;
  m.transpose_b = transpose_b;
  return m;
}

}  // namespace

TEST_CASE("cublasLt multiplies, for all transposes, orders and betas", "[simt]") {
  const FreshDevice fresh;
  for (int bits = 0; bits < 8; ++bits) {
    const Matmul m = product(bits & 1, bits & 2, bits & 4);
    for (const float beta : {0.0f, 1.0f, 0.5f}) {
      CAPTURE(bits, beta);
      check_product<float, float>(m, 2.0f, beta);
    }
  }
}

// A stride of 0 lets one matrix serve all products.
TEST_CASE("cublasLt multiplies batches", "[simt]") {
  const FreshDevice fresh;
  for (int bits = 0; bits < 8; ++bits) {
    Matmul m = product(bits & 1, bits & 2, bits & 4);
    m.batches = 3;
    m.alignment = 4;
    m.a.batch_stride = int64_t(m.a.size()) + 1;
    m.b.batch_stride = bits % 3 == 0 ? 0 : int64_t(m.b.size());
    m.d.batch_stride = int64_t(m.d.size()) + 2;
    for (const float beta : {0.0f, 1.0f}) {
      CAPTURE(bits, beta);
      check_product<float, float>(m, 2.0f, beta);
    }
  }
}

TEST_CASE("cublasLt refuses batches that overlap or are less aligned than told", "[simt]") {
  const FreshDevice fresh;
  Matmul m = product(false, false, false);
  m.batches = 2;
  m.alignment = 8;
  m.a.batch_stride = int64_t(m.a.size()) / 2 * 2 + 2;
  m.b.batch_stride = 0;
  m.d.batch_stride = int64_t(m.d.size()) - m.d.ld;
  REQUIRE(Call(m).choose() == CUBLAS_STATUS_INVALID_VALUE);
  m.d.batch_stride = int64_t(m.d.size()) / 2 * 2 + 2;
  for (const bool odd : {false, true}) {
    if (odd) m.a.batch_stride += 1;
    Call call(m);
    REQUIRE(call.choose() == CUBLAS_STATUS_SUCCESS);
    Array<float> a(m.a.size(2)), b(m.b.size(2)), d(m.d.size(2));
    const auto status = call.run(1.0f, a.data(), b.data(), 0.0f, d.data(), d.data(), nullptr, 0);
    REQUIRE((status == CUBLAS_STATUS_SUCCESS) == !odd);
  }
}

TEST_CASE("cublasLt adds the bias and clips, after beta", "[simt]") {
  const FreshDevice fresh;
  for (const auto epilogue :
       {CUBLASLT_EPILOGUE_RELU, CUBLASLT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_RELU_BIAS}) {
    for (const float beta : {0.0f, 1.0f}) {
      CAPTURE(epilogue, beta);
      Matmul m = product(true, false, false);
      m.epilogue = epilogue;
      check_product<float, float>(m, 1.0f, beta);
    }
  }
}

TEST_CASE("cublasLt multiplies 16-bit and double matrices", "[simt]") {
  const FreshDevice fresh;
  for (const bool transpose : {false, true}) {
    for (const float beta : {0.0f, 1.0f}) {
      check_product<__half, __half>(product(transpose, false, false, CUDA_R_16F, CUDA_R_16F), 1.0f,
                                    beta);
      check_product<__half, float>(product(transpose, false, true, CUDA_R_16F, CUDA_R_32F), 1.0f,
                                   beta);
      check_product<__nv_bfloat16, __nv_bfloat16>(
          product(transpose, true, false, CUDA_R_16BF, CUDA_R_16BF), 1.0f, beta);
      check_product<__nv_bfloat16, float>(product(transpose, true, false, CUDA_R_16BF, CUDA_R_32F),
                                          1.0f, beta);
      Matmul m = product(transpose, true, false, CUDA_R_64F, CUDA_R_64F);
      m.scale = CUDA_R_64F;
      check_product<double, double, double>(m, 0.1, beta);
    }
  }
}

TEST_CASE("cublasLt spoils the workspace that it asked for", "[simt]") {
  const FreshDevice fresh;
  Matmul m = product(false, false, false);
  m.workspace_bytes = 4096;
  check_product<float, float>(m, 1.0f, 1.0f);

  Array<float> a(numbers<float>(m.a.size(), 1)), b(numbers<float>(m.b.size(), 2)), d(m.d.size());
  Array<int> workspace(std::vector<int>(1024, 7));
  Call call(m);
  REQUIRE(call.choose() == CUBLAS_STATUS_SUCCESS);
  CHECK(call.workspace_bytes() == 4096);
  const auto run = [&](void* memory, size_t bytes) {
    return call.run(1.0f, a.data(), b.data(), 0.0f, d.data(), d.data(), memory, bytes);
  };
  CHECK(run(workspace.data(), 4095) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(run(nullptr, 4096) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(run(reinterpret_cast<char*>(workspace.data()) + 4, 4096) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(workspace.read() == std::vector<int>(1024, 7));
  CHECK(run(workspace.data(), 4096) == CUBLAS_STATUS_SUCCESS);
  CHECK(workspace.read() == std::vector<int>(1024, -1));
}

TEST_CASE("cublasLt's relu makes NaN 0, as a GPU's fmax does", "[simt]") {
  const FreshDevice fresh;
  Matmul m{{CUDA_R_32F, 1, 1, 1}, {CUDA_R_32F, 1, 1, 1}, {CUDA_R_32F, 1, 1, 1}};
  m.epilogue = CUBLASLT_EPILOGUE_RELU;
  Array<float> a(std::vector<float>{NAN}), b(std::vector<float>{1}), d(1);
  Call call(m);
  REQUIRE(call.choose() == CUBLAS_STATUS_SUCCESS);
  REQUIRE(call.run(1.0f, a.data(), b.data(), 0.0f, d.data(), d.data(), nullptr, 0) ==
          CUBLAS_STATUS_SUCCESS);
  CHECK(d.read()[0] == 0);
}

// 2049 is 2048 in 16 bits, 2050 is itself.
TEST_CASE("cublasLt rounds the parts of a split sum, unless told otherwise", "[simt]") {
  const FreshDevice fresh;
  Matmul m{{CUDA_R_16F, 1, 2, 1}, {CUDA_R_16F, 2, 1, 2}, {CUDA_R_16F, 1, 1, 1}};
  const auto [mask, expected] = GENERATE(std::pair{CUBLASLT_REDUCTION_SCHEME_MASK, 2048.0f},
                                         std::pair{CUBLASLT_REDUCTION_SCHEME_INPLACE, 2048.0f},
                                         std::pair{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, 2050.0f},
                                         std::pair{CUBLASLT_REDUCTION_SCHEME_NONE, 2050.0f});
  m.reduction_mask = mask;
  m.workspace_bytes = 1024;
  Array<__half> a(std::vector<__half>{683.0f, 1.0f}), b(std::vector<__half>{3.0f, 1.0f}), d(1);
  Array<char> workspace(1024);
  Call call(m);
  REQUIRE(call.choose() == CUBLAS_STATUS_SUCCESS);
  REQUIRE(call.run(1.0f, a.data(), b.data(), 0.0f, d.data(), d.data(), workspace.data(), 1024) ==
          CUBLAS_STATUS_SUCCESS);
  CHECK(float(d.read()[0]) == expected);
}

TEST_CASE("cublasLt's first choice may be none", "[simt]") {
  const FreshDevice fresh;
  const int K = GENERATE(2, 3);
  Call call({{CUDA_R_32F, 1, K, 1}, {CUDA_R_32F, K, 1, K}, {CUDA_R_32F, 1, 1, 1}});
  REQUIRE(call.choose() == CUBLAS_STATUS_SUCCESS);
  CHECK(call.unusable() == K % 2);
}

TEST_CASE("cublasLt refuses what the library refuses", "[simt]") {
  const FreshDevice fresh;
  const auto judged = [](auto change) {
    Matmul m = product(false, false, false);
    change(m);
    return Call(m).choose();
  };
  const auto invalid = CUBLAS_STATUS_INVALID_VALUE, unsupported = CUBLAS_STATUS_NOT_SUPPORTED;
  CHECK(judged([](Matmul&) {}) == CUBLAS_STATUS_SUCCESS);
  CHECK(judged([](Matmul& m) { m.a.ld = m.a.rows - 1; }) == invalid);
  CHECK(judged([](Matmul& m) { m.d.ld = m.d.rows - 1; }) == invalid);
  CHECK(judged([](Matmul& m) { m.a.cols += 1; }) == invalid);
  CHECK(judged([](Matmul& m) { m.d.rows -= 1; }) == invalid);
  CHECK(judged([](Matmul& m) { m.transpose_b = true; }) == invalid);
  CHECK(judged([](Matmul& m) { m.b.type = CUDA_R_16F; }) == unsupported);
  CHECK(judged([](Matmul& m) { m.d.type = CUDA_R_16F; }) == unsupported);
  CHECK(judged([](Matmul& m) { m.scale = CUDA_R_64F; }) == unsupported);
  CHECK(judged([](Matmul& m) {
          m = product(false, false, true);
          m.epilogue = CUBLASLT_EPILOGUE_RELU_BIAS;
        }) == unsupported);
  CHECK(judged([](Matmul& m) {
          m = product(false, false, false, CUDA_R_64F, CUDA_R_64F);
          m.scale = CUDA_R_64F;
          m.epilogue = CUBLASLT_EPILOGUE_BIAS;
        }) == invalid);
}

TEST_CASE("cublasLt requires the alignment that its heuristic was given", "[simt]") {
  const FreshDevice fresh;
  Matmul m = product(false, false, false);
  m.alignment = GENERATE(256, 4);
  Array<float> a(m.a.size() + 1), b(m.b.size()), d(m.d.size());
  Call call(m);
  REQUIRE(call.choose() == CUBLAS_STATUS_SUCCESS);
  const auto run = [&](const void* pointer) {
    return call.run(1.0f, pointer, b.data(), 0.0f, d.data(), d.data(), nullptr, 0);
  };
  CHECK(run(a.data()) == CUBLAS_STATUS_SUCCESS);
  CHECK(run(a.data() + 1) ==
        (m.alignment == 4 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE));
  CHECK(run(reinterpret_cast<char*>(a.data()) + 2) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(run(nullptr) == CUBLAS_STATUS_INVALID_VALUE);
}

TEST_CASE("cublasLt counts products whose extents do not suit tensor cores", "[simt]") {
  const FreshDevice fresh;
  const auto is_slow = [](int m, int n, int k, bool transpose_a, cudaDataType_t type,
                          uint32_t alignment, int more) {
    const auto up = [](int size) { return (size + 7) / 8 * 8; };
    Matmul product{{type, transpose_a ? k : m, transpose_a ? m : k, up(transpose_a ? k : m) + more},
                   {type, k, n, up(k)},
                   {CUDA_R_32F, m, n, up(m)}};
    product.transpose_a = transpose_a;
    product.alignment = alignment;
    Array<__nv_bfloat16> a(2 * product.a.size()), b(2 * product.b.size());
    Array<float> d(product.d.size());
    Call call(product);
    REQUIRE(call.choose() == CUBLAS_STATUS_SUCCESS);
    const simt::Launches before = simt::launches();
    REQUIRE(call.run(1.0f, a.data(), b.data(), 0.0f, d.data(), d.data(), nullptr, 0) ==
            CUBLAS_STATUS_SUCCESS);
    CHECK(simt::launches().library_calls == before.library_calls + 1);
    return simt::launches().slow_products > before.slow_products;
  };
  CHECK_FALSE(is_slow(16, 17, 8, false, CUDA_R_16BF, 256, 0));  // n is contiguous nowhere
  CHECK_FALSE(is_slow(16, 16, 8, true, CUDA_R_16BF, 16, 8));
  CHECK(is_slow(17, 16, 8, true, CUDA_R_16BF, 256, 0));   // rows of D
  CHECK(is_slow(20, 16, 8, false, CUDA_R_16BF, 256, 0));  // rows of A; of D they suit
  CHECK_FALSE(is_slow(20, 16, 8, true, CUDA_R_16BF, 256, 0));
  CHECK(is_slow(16, 16, 12, true, CUDA_R_16BF, 256, 0));
  CHECK(is_slow(16, 16, 8, false, CUDA_R_16BF, 256, 4));  // the leading dimension
  CHECK(is_slow(16, 16, 8, false, CUDA_R_16BF, 8, 0));
  CHECK_FALSE(is_slow(17, 17, 7, false, CUDA_R_32F, 4, 1));  // no tensor cores are asked for
}

TEST_CASE("cublasLt works in its stream, with the scalars of the call", "[simt]") {
  const FreshDevice fresh;
  const Matmul m{{CUDA_R_32F, 1, 1, 1}, {CUDA_R_32F, 1, 1, 1}, {CUDA_R_32F, 1, 1, 1}};
  Array<float> a(std::vector<float>{3}), b(std::vector<float>{5}), d(std::vector<float>{1});
  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  Call call(m);
  REQUIRE(call.choose() == CUBLAS_STATUS_SUCCESS);
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
  REQUIRE(call.run(2.0f, a.data(), b.data(), 1.0f, d.data(), d.data(), nullptr, 0, stream) ==
          CUBLAS_STATUS_SUCCESS);
  REQUIRE(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
  REQUIRE(cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess);
  CHECK(d.read()[0] == 1);
  for (int i = 0; i < 2; ++i) REQUIRE(cudaGraphLaunch(exec, stream) == cudaSuccess);
  REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
  CHECK(d.read()[0] == 61);
  CHECK(cudaGraphExecDestroy(exec) == cudaSuccess);
  CHECK(cudaGraphDestroy(graph) == cudaSuccess);
  CHECK(cudaStreamDestroy(stream) == cudaSuccess);
}

TEST_CASE("A matrix that leaves its block fails when the product runs", "[simt]") {
  const FreshDevice fresh;
  const Matmul m = product(false, false, false);
  Array<float> a(m.a.size() - 4), b(m.b.size()), d(m.d.size());
  Call call(m);
  REQUIRE(call.choose() == CUBLAS_STATUS_SUCCESS);
  REQUIRE(call.run(1.0f, a.data(), b.data(), 0.0f, d.data(), d.data(), nullptr, 0) ==
          CUBLAS_STATUS_SUCCESS);
  CHECK(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
  CHECK_THAT(simt::last_report(), ContainsSubstring("cublasLtMatmul: A"));
}
