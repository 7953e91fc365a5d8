#pragma once

#include "cublasLt.h"
#include "library.h"

struct cublasLtMatrixLayoutOpaque_t {
  cudaDataType_t type;
  uint64_t rows, cols;
  int64_t ld;
  cublasLtOrder_t order = CUBLASLT_ORDER_COL;
  int32_t batch_count = 1;
  int64_t batch_stride = 0;  // in elements
};

struct cublasLtMatmulDescOpaque_t {
  cublasComputeType_t compute;
  cudaDataType_t scale;
  cublasLtPointerMode_t pointer_mode = CUBLASLT_POINTER_MODE_HOST;
  cublasOperation_t op_a = CUBLAS_OP_N, op_b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
  int32_t bias_type = -1;  // D's type
};

namespace simt {

using Layout = cublasLtMatrixLayoutOpaque_t;
using Desc = cublasLtMatmulDescOpaque_t;

struct Operands {
  Desc desc;
  const void *a, *b, *c;
  void* d;
  Layout layout_a, layout_b, layout_c, layout_d;
  bool rounds_parts = false;

  int64_t K() const { return desc.op_a == CUBLAS_OP_N ? layout_a.cols : layout_a.rows; }
};

inline bool has_bias(const Desc& desc) { return (desc.epilogue & CUBLASLT_EPILOGUE_BIAS) != 0; }
cudaDataType_t bias_type(const Operands& o);
size_t type_bytes(cudaDataType_t type);
// The elements from a matrix's first to its last.
size_t matrix_extent(const Layout& layout);

// D = alpha op(A) op(B) + beta C and the epilogue, to run on the device. D is overwritten before A
// and B are read, of all of a batch first: a D that shares elements with them gives wrong results,
// as it may on a GPU. Host scalars are read now, device scalars when the work runs.
Work matmul_work(const Operands& o, const void* alpha, const void* beta, Workspace workspace);

}  // namespace simt
