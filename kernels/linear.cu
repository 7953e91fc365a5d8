#include <array>
#include <map>
#include <optional>
#include <span>

#include "core/ceil_div.h"
#include "core/cuda.h"
#include "kernels/detail/channel_bias.cuh"
#include "kernels/detail/channel_sums.h"
#include "kernels/detail/descriptor.h"
#include "kernels/detail/matmul.h"
#include "kernels/detail/scale.h"
#include "kernels/detail/small_linear.cuh"
#include "kernels/detail/transpose.h"
#include "kernels/quantized_matmul.h"

namespace accrue::cuda {
namespace {

using MatmulDescriptor = Descriptor<cublasLtMatmulDescDestroy>;
using Layout = Descriptor<cublasLtMatrixLayoutDestroy>;
using Preference = Descriptor<cublasLtMatmulPreferenceDestroy>;

// Everything that the choice of an algorithm depends on. The same product always uses the same
// algorithm, and so gives the same bits.
struct MatmulKey {
  DType dtype, result;
  int64_t M, N, K;
  int64_t c_stride, a_stride;
  ProductBatch batch;
  Transpose a_op, b_op;
  cublasComputeType_t compute;
  bool has_bias;
  uint32_t alignment;
  int64_t workspace_bytes;

  auto operator<=>(const MatmulKey&) const = default;
};

struct Prepared {
  MatmulDescriptor product;
  Layout a, b, c;
  std::optional<cublasLtMatmulAlgo_t> algorithm;
};

template <class Value>
void set(const MatmulDescriptor& product, cublasLtMatmulDescAttributes_t attribute, Value value) {
  check_call(cublasLtMatmulDescSetAttribute(product.get(), attribute, &value, sizeof(value)),
             "describe a matrix product");
}

template <class Value>
void set(const Layout& layout, cublasLtMatrixLayoutAttribute_t attribute, Value value) {
  check_call(cublasLtMatrixLayoutSetAttribute(layout.get(), attribute, &value, sizeof(value)),
             "describe a matrix");
}

template <class Value>
void set(const Preference& preference, cublasLtMatmulPreferenceAttributes_t attribute,
         Value value) {
  check_call(
      cublasLtMatmulPreferenceSetAttribute(preference.get(), attribute, &value, sizeof(value)),
      "limit the choice of a matrix product's algorithm");
}

cudaDataType_t data_type(DType dtype) {
  switch (dtype) {
    case DType::f64: return CUDA_R_64F;
    case DType::f16: return CUDA_R_16F;
    case DType::bf16: return CUDA_R_16BF;
    default: return CUDA_R_32F;
  }
}

// Sums of 16-bit products are in float.
cublasComputeType_t compute_type(DType dtype) {
  if (dtype == DType::f64) return CUBLAS_COMPUTE_64F;
  const bool tf32 = dtype == DType::f32 && allows_tf32();
  return tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

cublasOperation_t operation(Transpose op) {
  return op == Transpose::yes ? CUBLAS_OP_T : CUBLAS_OP_N;
}

int64_t stride_of(View x, int64_t stride) { return stride > 0 ? stride : x.shape[1]; }

// A row-major view is the column-major matrix of its transpose. `count` of them lie `apart`.
Layout layout_of(View x, int64_t stride, int64_t count, int64_t apart) {
  auto layout = make_descriptor<cublasLtMatrixLayoutDestroy>(
      cublasLtMatrixLayoutCreate, data_type(x.dtype), x.shape[1], x.shape[0], stride);
  if (count == 1) return layout;
  set(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<int32_t>(count));
  set(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, apart);
  return layout;
}

// The largest number of bytes, up to the 16 of the widest access, that divides all addresses.
uint32_t alignment_of(std::initializer_list<const void*> addresses) {
  uintptr_t bits = 16;
  for (const void* address : addresses) bits |= reinterpret_cast<uintptr_t>(address);
  return static_cast<uint32_t>(bits & -bits);
}

// The distance of a batch's matrices as if it were an address.
const void* bytes_apart(View x, int64_t elements) {
  return reinterpret_cast<const void*>(elements * int64_t(size_of(x.dtype)));
}

// Returns the algorithm that cuBLASLt's heuristics choose, or nullopt if they know no way.
std::optional<cublasLtMatmulAlgo_t> choose_algorithm(const Prepared& prepared,
                                                     const MatmulKey& product) {
  const auto preference =
      make_descriptor<cublasLtMatmulPreferenceDestroy>(cublasLtMatmulPreferenceCreate);
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t(product.workspace_bytes));
  for (const auto attribute :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    set(preference, attribute, product.alignment);
  // Otherwise a sum that is split over K would round each part to 16 bits.
  if (is_16_bit_dtype(product.result))
    set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
        uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  std::array<cublasLtMatmulHeuristicResult_t, 8> found{};
  int count = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      context().cublas_lt(), prepared.product.get(), prepared.b.get(), prepared.a.get(),
      prepared.c.get(), prepared.c.get(), preference.get(), static_cast<int>(found.size()),
      found.data(), &count);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) return std::nullopt;
  check_call(status, "choose an algorithm");
  for (const auto& result : std::span(found).first(static_cast<size_t>(count)))
    if (result.state == CUBLAS_STATUS_SUCCESS) return result.algo;
  return std::nullopt;
}

// c^T = op(b)^T op(a)^T: cuBLASLt's first factor is b.
Prepared prepare(const MatmulKey& product, View c, View a, View b, const void* bias) {
  Prepared prepared{make_descriptor<cublasLtMatmulDescDestroy>(
                        cublasLtMatmulDescCreate, product.compute, data_type(wide(product.dtype))),
                    layout_of(a, product.a_stride, product.batch.count, product.batch.a),
                    layout_of(b, b.shape[1], product.batch.count, product.batch.b),
                    layout_of(c, product.c_stride, product.batch.count, product.batch.c)};
  set(prepared.product, CUBLASLT_MATMUL_DESC_TRANSA, operation(product.b_op));
  set(prepared.product, CUBLASLT_MATMUL_DESC_TRANSB, operation(product.a_op));
  if (product.has_bias) {
    set(prepared.product, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    set(prepared.product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  }
  prepared.algorithm = choose_algorithm(prepared, product);
  return prepared;
}

// c = a + product [M, N] + bias, where the rows of c and a are `stride` elements apart. c may be a.
template <class T>
__global__ void __launch_bounds__(block_threads)
    add_product_kernel(T* c, const T* a, int64_t stride, const float* product, const T* bias,
                       int64_t N, int64_t size) {
  for (int64_t i = first_item(); i < size; i += item_stride()) {
    const int64_t n = i % N, at = i / N * stride + n;
    c[at] = T(widen(a[at]) + (bias ? product[i] + widen(bias[n]) : product[i]));
  }
}

// Up to this size, a float32 product is added to a 16-bit c by our own kernel. cuBLASLt 13.0 on an
// H200 seemed to round the product to 16 bits before adding it to 2 rows of bfloat16, which rounds
// the sum twice. For a larger c, the float32 product would take too long.
constexpr int64_t most_added_bytes = 1 << 20;

// Terms of a product beside its sums: a bias in each row, and, in place of c, a matrix that lies as
// c does.
struct Addends {
  const void *bias = nullptr, *in_place_of_c = nullptr;
};

// c = op(a) op(b) + beta * c, and what it adds. Returns false if cuBLASLt cannot compute it. A
// prepared product is kept as long as the process runs, because the heuristics cost more than a
// small product. It is never destroyed, for the same reason as Context.
bool try_matmul(GradTarget c, View a, View b, Transpose a_op, Transpose b_op, View workspace,
                const Addends& adds = {}, Strides strides = {}, ProductBatch batch = {}) {
  static auto& all = *new std::map<MatmulKey, Prepared>;
  const int64_t K = a_op == Transpose::yes ? a.shape[0] : a.shape[1];
  if (c.grad.numel() == 0 || K == 0) return false;
  const int64_t elements = batch.count * c.grad.numel();
  const int64_t product_bytes = round_up<int64_t>(elements * int64_t(sizeof(float)), 256);
  const void* const before = adds.in_place_of_c ? adds.in_place_of_c : c.grad.data;
  if (c.beta != 0 && is_16_bit_dtype(c.grad.dtype) && product_bytes <= most_added_bytes) {
    const View sum{workspace.data, c.grad.shape, DType::f32, workspace.device};
    if (!try_matmul({sum, 0}, a, b, a_op, b_op, workspace.part(product_bytes, workspace.numel()),
                    {}, {.a = strides.a}, {batch.count, c.grad.numel(), batch.a, batch.b}))
      return false;
    dispatch_floating(c.grad.dtype, [&]<class T>() {
      if constexpr (sizeof(T) == 2)
        enqueue(grid_over(elements), add_product_kernel<T>, c.grad.as<T>(),
                static_cast<const T*>(before), stride_of(c.grad, strides.c), sum.as<const float>(),
                static_cast<const T*>(adds.bias), sum.shape[1], elements);
    });
    return true;
  }
  const MatmulKey product{
      a.dtype,
      c.grad.dtype,
      c.grad.shape[0],
      c.grad.shape[1],
      K,
      stride_of(c.grad, strides.c),
      stride_of(a, strides.a),
      batch,
      a_op,
      b_op,
      compute_type(a.dtype),
      adds.bias != nullptr,
      alignment_of({c.grad.data, before, a.data, b.data, adds.bias, bytes_apart(c.grad, batch.c),
                    bytes_apart(a, batch.a), bytes_apart(b, batch.b)}),
      workspace.numel()};
  auto at = all.find(product);
  if (at == all.end()) at = all.emplace(product, prepare(product, c.grad, a, b, adds.bias)).first;
  const Prepared& prepared = at->second;
  if (!prepared.algorithm) return false;
  if (adds.bias) set(prepared.product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, adds.bias);
  dispatch_wide(wide(product.dtype), [&]<class T>() {
    const T alpha = 1, beta = c.beta;
    check_call(
        cublasLtMatmul(context().cublas_lt(), prepared.product.get(), &alpha, b.data,
                       prepared.b.get(), a.data, prepared.a.get(), &beta, before, prepared.c.get(),
                       c.grad.data, prepared.c.get(), &*prepared.algorithm, workspace.data,
                       static_cast<size_t>(workspace.numel()), context().stream()),
        "multiply matrices");
  });
  return true;
}

// The relu of cuBLASLt's epilogues is documented as max(x, 0). On a GPU max turns NaN into 0, which
// would keep a window that must be skipped.
void apply(Activation activation, View y) {
  with_formula(activation, [&](auto f) {
    dispatch_floating(y.dtype,
                      [&]<class T>() { elementwise(y.as<T>(), 0, y.numel(), f, y.as<const T>()); });
  });
}

}  // namespace

namespace {

void check_found(bool is_found, View a, View b, View workspace) {
  check(is_found, "cuBLASLt has no algorithm for {} {} x {} in {}", name(a.dtype), a.shape, b.shape,
        format_bytes(workspace.numel()));
}

// Columns of a matrix from `first` on. The distance between rows stays the same.
View columns_of(View x, int64_t first, int64_t count) {
  void* const at = static_cast<char*>(x.data) + first * int64_t(size_of(x.dtype));
  return {at, {x.shape[0], count}, x.dtype, x.device};
}

// c = a op(w) + beta * c for a weight of another stored type, or + beta times a matrix in place of
// c. The weight's widened slabs lie at the beginning of the workspace.
void quantized_matmul(GradTarget c, View a, View w, Transpose w_op, View workspace, Strides strides,
                      View in_place_of_c = {}) {
  if (c.grad.numel() == 0) return;
  const int64_t scratch = widened_bytes(w, a.dtype);
  const View of_product = workspace.part(scratch, workspace.numel());
  for_each_slab(w, w_op, a.dtype, [&](const Slab& slab) {
    const View widened{workspace.data, {slab.rows, slab.columns}, a.dtype, w.device};
    widen_slab(widened, w, slab.row, slab.column);
    const SlabProduct part(slab, w_op, c.beta);
    const bool is_transposed = w_op == Transpose::yes;
    const View columns = columns_of(c.grad, part.c_column, widened.shape[is_transposed ? 0 : 1]);
    const View terms = columns_of(a, part.a_column, widened.shape[is_transposed ? 1 : 0]);
    // Later slabs of the same columns add to c.
    const bool adds_matrix = in_place_of_c.data && part.a_column == 0;
    const View before = adds_matrix ? columns_of(in_place_of_c, part.c_column, 1) : View{};
    check_found(try_matmul({columns, part.beta}, terms, widened, Transpose::no, w_op, of_product,
                           {.in_place_of_c = before.data},
                           {stride_of(c.grad, strides.c), stride_of(a, strides.a)}),
                terms, widened, of_product);
  });
}

}  // namespace

void matmul(GradTarget c, View a, View b, Transpose a_op, Transpose b_op, View workspace) {
  matmul(c, a, b, a_op, b_op, workspace, {});
}

void matmul(GradTarget c, View a, View b, Transpose a_op, Transpose b_op, View workspace,
            Strides strides) {
  if (is_stored_otherwise(b.shape, b.dtype, a.dtype))
    return quantized_matmul(c, a, b, b_op, workspace, strides);
  if (try_matmul(c, a, b, a_op, b_op, workspace, {}, strides)) return;
  const bool no_terms = a.numel() == 0;
  check_found(c.grad.numel() == 0 || no_terms, a, b, workspace);
  if (c.beta == 0) fill(c.grad, 0);
}

void matmul_batch(GradTarget c, View a, View b, Transpose a_op, Transpose b_op, View workspace,
                  const ProductBatch& batch) {
  check_found(try_matmul(c, a, b, a_op, b_op, workspace, {}, {}, batch), a, b, workspace);
}

void linear_forward(View y, View x, View w, View b, Activation activation, Transpose w_op,
                    View workspace) {
  const bool is_stored_so = !is_stored_otherwise(w.shape, w.dtype, x.dtype);
  if (is_stored_so && w_op == Transpose::yes &&
      is_small_linear(x.shape[0], w.shape[0], x.shape[1])) {
    small_linear_forward(y, x, w, b, activation);
    return;
  }
  const GradTarget target{y, 0};
  // cuBLASLt does not list float64 for its epilogues, and may reject it.
  const bool has_epilogue = is_stored_so && x.dtype != DType::f64;
  if (b.data && has_epilogue && try_matmul(target, x, w, Transpose::no, w_op, workspace, {b.data}))
    b = {};
  else matmul(target, x, w, Transpose::no, w_op, workspace);
  if (b.data) add_channel_bias(y, b, activation);
  else if (activation != Activation::none) apply(activation, y);
}

void add_linear_forward(View y, View a, View x, View w, View b, Transpose w_op, View workspace) {
  const GradTarget target{y, 1};
  if (is_stored_otherwise(w.shape, w.dtype, x.dtype) && x.numel() > 0) {
    quantized_matmul(target, x, w, w_op, workspace, {}, a);
  } else if (x.dtype != DType::f64 &&
             try_matmul(target, x, w, Transpose::no, w_op, workspace, {b.data, a.data})) {
    return;
  } else {
    if (y.data != a.data) scale({y, 0}, a, 1);
    matmul(target, x, w, Transpose::no, w_op, workspace);
  }
  if (b.data) add_channel_bias(y, b, Activation::none);
}

void linear_backward(std::optional<GradTarget> dw, std::optional<GradTarget> db, View dy, View y,
                     Activation activation, View x, Transpose w_op, View workspace) {
  if (w_op == Transpose::yes && is_small_linear(x.shape[0], dy.shape[1], x.shape[1])) {
    small_linear_backward(dw, db, dy, y, activation, x);
    return;
  }
  if (y.data) activation_backward_over(dy, y, activation);
  if (dw && w_op == Transpose::yes) matmul(*dw, dy, x, Transpose::yes, Transpose::no, workspace);
  else if (dw) matmul(*dw, x, dy, Transpose::yes, Transpose::no, workspace);
  // The workspace of the product has at least 4 MiB, of which the pieces' sums need 128 KiB.
  if (db) channel_sum(*db, dy, workspace);
}

}  // namespace accrue::cuda
