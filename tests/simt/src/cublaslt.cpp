#include "cublasLt.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "matmul.h"

// Opaque to users: every handle can be an ordinary object here.
struct cublasLtContext {};

struct cublasLtMatmulPreferenceOpaque_t {
  uint64_t workspace = 0;
  uint32_t reduction_mask = CUBLASLT_REDUCTION_SCHEME_MASK;
  std::array<uint32_t, 4> alignment{256, 256, 256, 256};  // of A, B, C, D, as the heuristic assumes
};

namespace simt {
namespace {

// The meaning of each word of cublasLtMatmulAlgo_t; four alignments, as in the preference.
enum AlgoWord {
  mark_word,
  workspace_word,
  alignment_word,
  split_word = alignment_word + 4,
  slow_word
};
constexpr uint64_t algo_mark = 0x73696d7461636372;

// The most workspace that this library asks for; real ones ask for as much as they are allowed.
constexpr uint64_t most_workspace = 1 << 20;

bool valid_layout(const Layout& layout) {
  const int64_t least = layout.order == CUBLASLT_ORDER_COL ? layout.rows : layout.cols;
  return layout.rows > 0 && layout.cols > 0 && layout.ld >= least && layout.batch_count > 0;
}

// All have as many matrices. A and B may have one for all products; in D they must not overlap.
bool valid_batches(const Operands& o) {
  const int32_t count = o.layout_d.batch_count;
  for (const Layout* layout : {&o.layout_a, &o.layout_b, &o.layout_c})
    if (layout->batch_count != count) return false;
  return count == 1 || o.layout_d.batch_stride >= int64_t(matrix_extent(o.layout_d));
}

bool valid_types(const Operands& o) {
  const cudaDataType_t a = o.layout_a.type, c = o.layout_c.type;
  if (o.layout_b.type != a || o.layout_d.type != c) return false;
  const bool wide =
      o.desc.compute == CUBLAS_COMPUTE_64F || o.desc.compute == CUBLAS_COMPUTE_64F_PEDANTIC;
  if (wide) return o.desc.scale == CUDA_R_64F && a == CUDA_R_64F && c == CUDA_R_64F;
  return o.desc.scale == CUDA_R_32F && a != CUDA_R_64F && (c == a || c == CUDA_R_32F);
}

// Checks a product as far as this needs no pointers.
cublasStatus_t judge(const Operands& o) {
  const auto rows = [](const Layout& l, cublasOperation_t op) {
    return op == CUBLAS_OP_N ? l.rows : l.cols;
  };
  const auto cols = [](const Layout& l, cublasOperation_t op) {
    return op == CUBLAS_OP_N ? l.cols : l.rows;
  };
  for (const Layout* layout : {&o.layout_a, &o.layout_b, &o.layout_c, &o.layout_d}) {
    if (!valid_layout(*layout)) return CUBLAS_STATUS_INVALID_VALUE;
  }
  const bool shapes = cols(o.layout_a, o.desc.op_a) == rows(o.layout_b, o.desc.op_b) &&
                      rows(o.layout_a, o.desc.op_a) == o.layout_d.rows &&
                      cols(o.layout_b, o.desc.op_b) == o.layout_d.cols &&
                      o.layout_c.rows == o.layout_d.rows && o.layout_c.cols == o.layout_d.cols &&
                      o.layout_c.order == o.layout_d.order;
  if (!shapes || !valid_batches(o)) return CUBLAS_STATUS_INVALID_VALUE;
  if (!valid_types(o)) return CUBLAS_STATUS_NOT_SUPPORTED;
  // The API reference lists the types of the epilogues; there is no CUDA_R_64F among them.
  if (o.desc.epilogue != CUBLASLT_EPILOGUE_DEFAULT && o.layout_d.type == CUDA_R_64F)
    return CUBLAS_STATUS_INVALID_VALUE;
  // The bias runs along the rows of a column-major D.
  if (has_bias(o.desc) && o.layout_d.order == CUBLASLT_ORDER_ROW)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  return CUBLAS_STATUS_SUCCESS;
}

bool aligned(const void* pointer, uint64_t bytes) {
  return reinterpret_cast<uintptr_t>(pointer) % bytes == 0;
}

// Pointers must be aligned to their elements, and as the heuristic that chose the algorithm was
// told, and so must a batch's further matrices.
bool valid_pointers(const Operands& o, const cublasLtMatmulAlgo_t* algo) {
  if (has_bias(o.desc) &&
      (o.desc.bias == nullptr || !aligned(o.desc.bias, type_bytes(bias_type(o))))) {
    return false;
  }
  const std::array<const void*, 4> pointers{o.a, o.b, o.c, o.d};
  const std::array<const Layout*, 4> layouts{&o.layout_a, &o.layout_b, &o.layout_c, &o.layout_d};
  for (size_t i = 0; i < pointers.size(); ++i) {
    if (pointers[i] == nullptr || !aligned(pointers[i], type_bytes(layouts[i]->type))) return false;
    if (algo == nullptr) continue;
    const uint64_t alignment = algo->data[alignment_word + i];
    const Layout& layout = *layouts[i];
    const bool apart = layout.batch_count == 1 ||
                       uint64_t(layout.batch_stride) * type_bytes(layout.type) % alignment == 0;
    if (!aligned(pointers[i], alignment) || !apart) return false;
  }
  return true;
}

bool valid_algo(const cublasLtMatmulAlgo_t& algo, const void* workspace, size_t bytes) {
  return algo.data[mark_word] == algo_mark && bytes >= algo.data[workspace_word] &&
         (bytes == 0 || workspace != nullptr) && aligned(workspace, 16);
}

template <class T>
cublasStatus_t assign(T& field, const void* value, size_t bytes) {
  if (bytes != sizeof(field)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&field, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

// Splits of the sum over K round the parts to D's type, unless they are told to keep the compute
// type: "INPLACE: using the output buffer (and output data type)", "OUTPUT_TYPE: intermediate
// results are stored in output type" (cublasLt.h).
bool rounds_parts(const Operands& o, const cublasLtMatmulPreferenceOpaque_t& preference) {
  const uint32_t rounding =
      CUBLASLT_REDUCTION_SCHEME_INPLACE | CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE;
  return (preference.reduction_mask & rounding) != 0 && o.K() > 1;
}

bool wants_tensor_cores(const Operands& o) {
  const size_t bytes = type_bytes(o.layout_a.type);
  return bytes == 2 || o.desc.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
}

// cuBLAS's conditions for the best use of tensor cores (its documentation, "Tensor Core Usage"):
// the contiguous extents of A, B and C, their leading dimensions and their addresses are multiples
// of 16 bytes. C is D here.
bool suits_tensor_cores(const Operands& o, const std::array<uint32_t, 4>& alignment) {
  const std::array<const Layout*, 4> layouts{&o.layout_a, &o.layout_b, &o.layout_c, &o.layout_d};
  for (size_t i = 0; i < layouts.size(); ++i) {
    const Layout& layout = *layouts[i];
    const uint64_t contiguous = layout.order == CUBLASLT_ORDER_COL ? layout.rows : layout.cols;
    const uint64_t bytes = type_bytes(layout.type);
    if (contiguous * bytes % 16 != 0 || uint64_t(layout.ld) * bytes % 16 != 0) return false;
    if (alignment[i] % 16 != 0) return false;
  }
  return true;
}

cublasLtMatmulHeuristicResult_t heuristic_result(uint64_t workspace,
                                                 const std::array<uint32_t, 4>& alignment,
                                                 bool rounds_parts, bool is_slow) {
  cublasLtMatmulHeuristicResult_t result{};
  result.algo.data[slow_word] = is_slow;
  result.algo.data[split_word] = rounds_parts;
  result.algo.data[mark_word] = algo_mark;
  result.algo.data[workspace_word] = workspace;
  for (size_t i = 0; i < alignment.size(); ++i) result.algo.data[alignment_word + i] = alignment[i];
  result.workspaceSize = workspace;
  result.state = CUBLAS_STATUS_SUCCESS;
  result.wavesCount = 1;
  return result;
}

template <class T, class... Args>
cublasStatus_t create(T** handle, Args... args) {
  if (handle == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  *handle = new T{args...};
  return CUBLAS_STATUS_SUCCESS;
}

template <class T>
cublasStatus_t destroy(T* handle) {
  require_loaded("a destructor of cuBLASLt");
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace
}  // namespace simt

using namespace simt;

size_t cublasLtGetVersion() { return 120000; }

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  unload_at_exit();
  return create(handle);
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) { return destroy(handle); }

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* desc, cublasComputeType_t compute,
                                        cudaDataType_t scale_type) {
  return create(desc, compute, scale_type);
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) { return destroy(desc); }

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t attr,
                                              const void* value, size_t bytes) {
  if (desc == nullptr || value == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  switch (attr) {
    case CUBLASLT_MATMUL_DESC_COMPUTE_TYPE: return assign(desc->compute, value, bytes);
    case CUBLASLT_MATMUL_DESC_SCALE_TYPE: return assign(desc->scale, value, bytes);
    case CUBLASLT_MATMUL_DESC_POINTER_MODE: return assign(desc->pointer_mode, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSA: return assign(desc->op_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB: return assign(desc->op_b, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE: return assign(desc->epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: return assign(desc->bias, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE: return assign(desc->bias_type, value, bytes);
  }
  return CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type,
                                          uint64_t rows, uint64_t cols, int64_t ld) {
  return create(layout, type, rows, cols, ld);
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  return destroy(layout);
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attr,
                                                const void* value, size_t bytes) {
  if (layout == nullptr || value == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  switch (attr) {
    case CUBLASLT_MATRIX_LAYOUT_TYPE: return assign(layout->type, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_ORDER: return assign(layout->order, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_ROWS: return assign(layout->rows, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_COLS: return assign(layout->cols, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_LD: return assign(layout->ld, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT: return assign(layout->batch_count, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
      return assign(layout->batch_stride, value, bytes);
  }
  return CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  return create(preference);
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  return destroy(preference);
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attr,
                                                    const void* value, size_t bytes) {
  if (preference == nullptr || value == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  switch (attr) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return assign(preference->workspace, value, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      return assign(preference->reduction_mask, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      return assign(preference->alignment[attr - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES], value,
                    bytes);
  }
  return CUBLAS_STATUS_NOT_SUPPORTED;
}

// Lists the best algorithm first: one that wants workspace, if some is allowed, then one that needs
// none. If K is odd, the state of the first result says that it is no algorithm: "Other fields are
// valid only if ... this member is set to CUBLAS_STATUS_SUCCESS" (cublasLt.h).
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t layout_a,
    cublasLtMatrixLayout_t layout_b, cublasLtMatrixLayout_t layout_c,
    cublasLtMatrixLayout_t layout_d, cublasLtMatmulPreference_t preference, int requested,
    cublasLtMatmulHeuristicResult_t results[], int* returned) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (desc == nullptr || layout_a == nullptr || layout_b == nullptr || layout_c == nullptr ||
      layout_d == nullptr || preference == nullptr || results == nullptr || returned == nullptr ||
      requested < 1) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  *returned = 0;
  const Operands o{*desc,     nullptr,   nullptr,   nullptr,  nullptr,
                   *layout_a, *layout_b, *layout_c, *layout_d};
  if (const cublasStatus_t status = judge(o)) return status;
  const bool is_slow = wants_tensor_cores(o) && !suits_tensor_cores(o, preference->alignment);
  const auto add = [&](uint64_t workspace, bool rounds_parts) {
    if (*returned < requested)
      results[(*returned)++] =
          heuristic_result(workspace, preference->alignment, rounds_parts, is_slow);
  };
  if (o.K() % 2 != 0) {
    results[(*returned)++] = {};
    results[0].state = CUBLAS_STATUS_NOT_SUPPORTED;
  }
  const uint64_t workspace = std::min(preference->workspace, most_workspace);
  if (workspace > 0) add(workspace, rounds_parts(o, *preference));
  add(0, false);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t layout_a, const void* b,
                              cublasLtMatrixLayout_t layout_b, const void* beta, const void* c,
                              cublasLtMatrixLayout_t layout_c, void* d,
                              cublasLtMatrixLayout_t layout_d, const cublasLtMatmulAlgo_t* algo,
                              void* workspace, size_t workspace_bytes, cudaStream_t stream) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (desc == nullptr || alpha == nullptr || beta == nullptr || layout_a == nullptr ||
      layout_b == nullptr || layout_c == nullptr || layout_d == nullptr) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  Operands o{*desc, a, b, c, d, *layout_a, *layout_b, *layout_c, *layout_d};
  if (const cublasStatus_t status = judge(o)) return status;
  if (algo != nullptr && !valid_algo(*algo, workspace, workspace_bytes)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  o.rounds_parts = algo != nullptr && algo->data[split_word] != 0;
  if (!valid_pointers(o, algo)) return CUBLAS_STATUS_INVALID_VALUE;
  const Workspace given{workspace, algo != nullptr ? algo->data[workspace_word] : 0};
  const bool is_slow = algo != nullptr && algo->data[slow_word] != 0;
  const cudaError_t error =
      submit_library_work(stream, matmul_work(o, alpha, beta, given), is_slow);
  return error == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}
