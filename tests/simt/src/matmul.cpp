#include "matmul.h"

#include <cmath>
#include <type_traits>
#include <vector>

#include "cuda_bf16.h"
#include "cuda_fp16.h"
#include "product.h"

namespace simt {
namespace {

template <class Visit>
auto visit_type(cudaDataType_t type, Visit visit) {
  switch (type) {
    case CUDA_R_64F: return visit(double{});
    case CUDA_R_16F: return visit(__half{});
    case CUDA_R_16BF: return visit(__nv_bfloat16{});
    case CUDA_R_32F: break;
  }
  return visit(float{});
}

size_t index(const Layout& layout, size_t row, size_t col) {
  return layout.order == CUBLASLT_ORDER_COL ? col * layout.ld + row : row * layout.ld + col;
}

// From the first matrix of a batch to the last.
size_t extent_bytes(const Layout& layout) {
  const size_t further = size_t(layout.batch_count - 1) * layout.batch_stride;
  return (further + matrix_extent(layout)) * type_bytes(layout.type);
}

// The operands of a batch's product by themselves.
Operands product_in_batch(Operands o, int32_t i) {
  const auto further = [i](const void* data, const Layout& layout) {
    return static_cast<const char*>(data) + i * layout.batch_stride * type_bytes(layout.type);
  };
  o.a = further(o.a, o.layout_a);
  o.b = further(o.b, o.layout_b);
  o.c = further(o.c, o.layout_c);
  o.d = const_cast<char*>(further(o.d, o.layout_d));
  return o;
}

// In row-major order.
template <class T>
struct Dense {
  size_t rows, cols;
  std::vector<T> values = std::vector<T>(rows * cols);

  T& operator()(size_t row, size_t col) { return values[row * cols + col]; }
  const T& operator()(size_t row, size_t col) const { return values[row * cols + col]; }
};

// f(row, col) for each element.
template <class T, class F>
Dense<T> make_dense(size_t rows, size_t cols, F f) {
  Dense<T> result{rows, cols};
  for (size_t row = 0; row < rows; ++row)
    for (size_t col = 0; col < cols; ++col) result(row, col) = f(row, col);
  return result;
}

template <class T>
T convert(auto value) {
  if constexpr (std::is_same_v<decltype(value), double>) return value;
  else return float(value);
}

template <class T>
Dense<T> load(const void* data, const Layout& layout, cublasOperation_t op = CUBLAS_OP_N) {
  return visit_type(layout.type, [&](auto zero) -> Dense<T> {
    const auto* values = static_cast<const decltype(zero)*>(data);
    if (op == CUBLAS_OP_N)
      return make_dense<T>(layout.rows, layout.cols, [&](size_t row, size_t col) {
        return convert<T>(values[index(layout, row, col)]);
      });
    return make_dense<T>(layout.cols, layout.rows, [&](size_t row, size_t col) {
      return convert<T>(values[index(layout, col, row)]);
    });
  });
}

template <class T>
void store(void* data, const Layout& layout, const Dense<T>& matrix) {
  visit_type(layout.type, [&](auto zero) {
    auto* values = static_cast<decltype(zero)*>(data);
    for (size_t col = 0; col < layout.cols; ++col) {
      for (size_t row = 0; row < layout.rows; ++row) {
        values[index(layout, row, col)] = matrix(row, col);
      }
    }
  });
}

// op(A) op(B), with the terms [begin, end) of the sum over K alone.
template <class T>
Dense<T> part_of_product(const Dense<T>& a, const Dense<T>& b, size_t begin, size_t end) {
  const size_t K = end - begin;
  const auto a_part =
      make_dense<T>(a.rows, K, [&](size_t row, size_t col) { return a(row, begin + col); });
  Dense<T> result{a.rows, b.cols};
  add_product<T>(a.rows, b.cols, K, {a_part.values.data()}, {b.values.data() + begin * b.cols},
                 result.values.data());
  return result;
}

// The product, in two parts if the sum over K is split and a part is rounded to D's type.
template <class T>
Dense<T> product_of(const Operands& o) {
  const Dense<T> a = load<T>(o.a, o.layout_a, o.desc.op_a),
                 b = load<T>(o.b, o.layout_b, o.desc.op_b);
  if (!o.rounds_parts) return part_of_product(a, b, 0, a.cols);
  const size_t half = a.cols / 2;
  Dense<T> sum = part_of_product(a, b, 0, half);
  const Dense<T> rest = part_of_product(a, b, half, a.cols);
  visit_type(o.layout_d.type, [&](auto zero) {
    const auto rounded = [](T value) { return convert<T>(decltype(zero)(value)); };
    for (size_t i = 0; i < sum.values.size(); ++i)
      sum.values[i] = rounded(sum.values[i]) + rounded(rest.values[i]);
  });
  return sum;
}

// C, or what stands for it where it is not read. D is destroyed.
template <class T>
Dense<T> take_c(const Operands& o, T beta) {
  const size_t rows = o.layout_d.rows, cols = o.layout_d.cols;
  Dense<T> before{rows, cols};
  if (beta != 0) before = load<T>(o.c, o.layout_c);
  store<T>(o.d, o.layout_d, make_dense<T>(rows, cols, [](size_t, size_t) { return T(NAN); }));
  return before;
}

template <class T>
void multiply(const Operands& o, T alpha, T beta, const Dense<T>& before) {
  const size_t rows = o.layout_d.rows, cols = o.layout_d.cols;
  Dense<T> bias{rows, 1};
  const Dense<T> product = product_of<T>(o);
  if (has_bias(o.desc)) bias = load<T>(o.desc.bias, Layout{bias_type(o), rows, 1, int64_t(rows)});
  // "x := max(x, 0)" is all that cuBLASLt documents; a GPU's max is fmax, which turns NaN into 0.
  const bool relu = (o.desc.epilogue & CUBLASLT_EPILOGUE_RELU) != 0;
  store<T>(o.d, o.layout_d, make_dense<T>(rows, cols, [&](size_t row, size_t col) {
             const T value = beta * before(row, col) + alpha * product(row, col) + bias(row, 0);
             return relu ? std::fmax(value, T(0)) : value;
           }));
}

template <class T>
Work work_in(const Operands& o, const void* alpha, const void* beta, Workspace workspace) {
  const bool on_host = o.desc.pointer_mode == CUBLASLT_POINTER_MODE_HOST;
  const auto read = [](const void* pointer) { return *static_cast<const T*>(pointer); };
  const T host_alpha = on_host ? read(alpha) : T(0), host_beta = on_host ? read(beta) : T(0);
  return [=] {
    const T a = on_host ? host_alpha : read(alpha), b = on_host ? host_beta : read(beta);
    require_device(o.a, extent_bytes(o.layout_a), "cublasLtMatmul: A");
    require_device(o.b, extent_bytes(o.layout_b), "cublasLtMatmul: B");
    if (b != 0) require_device(o.c, extent_bytes(o.layout_c), "cublasLtMatmul: C");
    require_device(o.d, extent_bytes(o.layout_d), "cublasLtMatmul: D");
    if (has_bias(o.desc)) {
      require_device(o.desc.bias, o.layout_d.rows * type_bytes(bias_type(o)),
                     "cublasLtMatmul: bias");
    }
    workspace.scribble();
    std::vector<Dense<T>> before;
    for (int32_t i = 0; i < o.layout_d.batch_count; ++i)
      before.push_back(take_c<T>(product_in_batch(o, i), b));
    for (int32_t i = 0; i < o.layout_d.batch_count; ++i)
      multiply<T>(product_in_batch(o, i), a, b, before[i]);
    workspace.scribble();
  };
}

}  // namespace

cudaDataType_t bias_type(const Operands& o) {
  return o.desc.bias_type < 0 ? o.layout_d.type : cudaDataType_t(o.desc.bias_type);
}

size_t matrix_extent(const Layout& layout) {
  return index(layout, layout.rows - 1, layout.cols - 1) + 1;
}

size_t type_bytes(cudaDataType_t type) {
  return visit_type(type, [](auto zero) { return sizeof(zero); });
}

Work matmul_work(const Operands& o, const void* alpha, const void* beta, Workspace workspace) {
  return o.desc.scale == CUDA_R_64F ? work_in<double>(o, alpha, beta, workspace)
                                    : work_in<float>(o, alpha, beta, workspace);
}

}  // namespace simt
