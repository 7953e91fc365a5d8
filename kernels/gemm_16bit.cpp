#include "kernels/gemm_16bit.h"

#include <map>
#include <tuple>

#include "kernels/backend.h"
#include "kernels/formulas.h"

#ifdef ACCRUE_HAS_ONEDNN
#include <oneapi/dnnl/dnnl.hpp>
#endif

namespace accrue::cpu {
namespace {

// Tiles of A, B and C in float stay in the second-level cache.
constexpr int64_t tile = 256;

// The part of a row-major matrix that begins at (row, column), in float and contiguous.
template <class T>
void load_tile(float* out, const T* matrix, int64_t stride, int64_t row, int64_t column,
               int64_t rows, int64_t columns) {
  parallel_for(rows, columns, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      std::copy_n(matrix + (row + r) * stride + column, columns, out + r * columns);
  });
}

// `size` rows from `m` and columns from `k` of op(A) [M, K], laid out as A is.
template <class T>
void load_operand(float* out, const T* a, Transpose op, int64_t stride, int64_t m, int64_t k,
                  int64_t rows, int64_t columns) {
  if (op == Transpose::yes) load_tile(out, a, stride, k, m, columns, rows);
  else load_tile(out, a, stride, m, k, rows, columns);
}

template <class C, class T>
void store_tile(C* c, const float* sums, int64_t m, int64_t n, int64_t rows, int64_t columns,
                const Product16<T>& p) {
  const float low = p.activation == Activation::relu ? 0 : -std::numeric_limits<float>::infinity();
  with_beta(p.beta, [&](auto accumulate) {
    parallel_for(rows, columns, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        C* out = c + (m + r) * p.N + n;
        const float* in = sums + r * columns;
        for (int64_t j = 0; j < columns; ++j) {
          const float value = in[j] + (p.bias ? widen(p.bias[n + j]) : 0.0f);
          store(out[j], value < low ? low : value, accumulate);
        }
      }
    });
  });
}

template <class C, class T>
void tiled_gemm(C* c, const T* a, const T* b, const Product16<T>& p, float* scratch) {
  float *a_tile = scratch, *b_tile = a_tile + tile * tile, *sums = b_tile + tile * tile;
  const int64_t a_stride = p.a_op == Transpose::yes ? p.M : p.K;
  const int64_t b_stride = p.b_op == Transpose::yes ? p.K : p.N;
  for (int64_t m = 0; m < p.M; m += tile)
    for (int64_t n = 0; n < p.N; n += tile) {
      const int64_t M = std::min(tile, p.M - m), N = std::min(tile, p.N - n);
      std::fill_n(sums, M * N, 0.0f);
      for (int64_t k = 0; k < p.K; k += tile) {
        const int64_t K = std::min(tile, p.K - k);
        load_operand(a_tile, a, p.a_op, a_stride, m, k, M, K);
        load_operand(b_tile, b, p.b_op, b_stride, k, n, K, N);
        gemm(sums, a_tile, b_tile, M, N, K, p.a_op, p.b_op, 1);
      }
      store_tile(c, sums, m, n, M, N, p);
    }
}

#ifdef ACCRUE_HAS_ONEDNN
bool processor_multiplies_bfloat16() {
  static const bool has = [] {
    const auto wanted = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_bf16);
    return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & wanted) == wanted;
  }();
  return has;
}

// A product as oneDNN prepares it. Kept as long as the process: preparing one costs more than a
// small product.
struct Prepared {
  dnnl::matmul matmul;
  dnnl::memory::desc a, b, bias, c;
};

struct OneDnn {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  using Key = std::tuple<int64_t, int64_t, int64_t, bool, bool, bool, bool, bool>;
  std::map<Key, Prepared> prepared;
};

dnnl::memory::desc matrix(int64_t rows, int64_t columns, dnnl::memory::data_type type,
                          Transpose op = Transpose::no) {
  using Tag = dnnl::memory::format_tag;
  return {{rows, columns}, type, op == Transpose::yes ? Tag::ba : Tag::ab};
}

template <class C>
Prepared prepare(const dnnl::engine& engine, const Product16<BFloat16>& p) {
  constexpr auto bf16 = dnnl::memory::data_type::bf16;
  constexpr auto c_type = is_16_bit<C> ? bf16 : dnnl::memory::data_type::f32;
  dnnl::post_ops after;
  if (p.beta != 0) after.append_sum(p.beta);
  dnnl::primitive_attr attributes;
  attributes.set_post_ops(after);
  Prepared result{{},
                  matrix(p.M, p.K, bf16, p.a_op),
                  matrix(p.K, p.N, bf16, p.b_op),
                  p.bias ? matrix(1, p.N, bf16) : dnnl::memory::desc(),
                  matrix(p.M, p.N, c_type)};
#if DNNL_VERSION_MAJOR >= 3
  result.matmul = dnnl::matmul(
      dnnl::matmul::primitive_desc(engine, result.a, result.b, result.bias, result.c, attributes));
#else
  result.matmul = dnnl::matmul(dnnl::matmul::primitive_desc(
      dnnl::matmul::desc(result.a, result.b, result.bias, result.c), attributes, engine));
#endif
  return result;
}

template <class C>
void onednn_gemm(C* c, const BFloat16* a, const BFloat16* b, const Product16<BFloat16>& p) {
  static thread_local OneDnn onednn;
  const OneDnn::Key key{p.M,
                        p.N,
                        p.K,
                        p.a_op == Transpose::yes,
                        p.b_op == Transpose::yes,
                        p.beta != 0,
                        p.bias != nullptr,
                        is_16_bit<C>};
  auto at = onednn.prepared.find(key);
  if (at == onednn.prepared.end())
    at = onednn.prepared.emplace(key, prepare<C>(onednn.engine, p)).first;
  const Prepared& prepared = at->second;
  const auto memory = [&](const dnnl::memory::desc& description, const void* data) {
    return dnnl::memory(description, onednn.engine, const_cast<void*>(data));
  };
  std::unordered_map<int, dnnl::memory> arguments{{DNNL_ARG_SRC, memory(prepared.a, a)},
                                                  {DNNL_ARG_WEIGHTS, memory(prepared.b, b)},
                                                  {DNNL_ARG_DST, memory(prepared.c, c)}};
  if (p.bias) arguments.emplace(DNNL_ARG_BIAS, memory(prepared.bias, p.bias));
  prepared.matmul.execute(onednn.stream, arguments);
  onednn.stream.wait();
  // Here, because oneDNN's relu takes a NaN for 0.
  if (p.activation == Activation::relu)
    parallel_for(p.M * p.N, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) c[i] = C(formula::Relu{}(widen(c[i])));
    });
}
#endif

}  // namespace

int64_t gemm_16bit_scratch() { return 3 * tile * tile; }

template <class C, class T>
void gemm_16bit(C* c, const T* a, const T* b, const Product16<T>& p, float* scratch) {
  if (p.M == 0 || p.N == 0) return;
#ifdef ACCRUE_HAS_ONEDNN
  if constexpr (std::is_same_v<T, BFloat16>)
    if (p.K > 0 && processor_multiplies_bfloat16()) {
      try {
        return onednn_gemm(c, a, b, p);
      } catch (const dnnl::error& error) {
        fail("[gemm] oneDNN refused {}x{}x{} in bf16: {}", p.M, p.N, p.K, error.what());
      }
    }
#endif
  tiled_gemm(c, a, b, p, scratch);
}

template void gemm_16bit(float*, const Half*, const Half*, const Product16<Half>&, float*);
template void gemm_16bit(Half*, const Half*, const Half*, const Product16<Half>&, float*);
template void gemm_16bit(float*, const BFloat16*, const BFloat16*, const Product16<BFloat16>&,
                         float*);
template void gemm_16bit(BFloat16*, const BFloat16*, const BFloat16*, const Product16<BFloat16>&,
                         float*);

}  // namespace accrue::cpu
