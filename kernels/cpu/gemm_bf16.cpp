#include "kernels/cpu/gemm_bf16.h"

#include "core/ceil_div.h"
#include "kernels/backend.h"
#include "kernels/cpu/micro_kernel.h"
#include "kernels/detail/formulas.h"

#ifdef ACCRUE_HAS_ONEDNN
#include <omp.h>

#include <map>
#include <oneapi/dnnl/dnnl.hpp>
#include <tuple>
#endif

namespace accrue::cpu {

#ifdef ACCRUE_HAS_ONEDNN

namespace {

// oneDNN would share its work among OpenMP's threads; here a call is one thread's chunk.
class OneThread {
 public:
  OneThread() { omp_set_num_threads(1); }
  ~OneThread() { omp_set_num_threads(before_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_ = omp_get_max_threads();
};

// A part of C; the strides in `product` are the whole matrices'.
struct Part {
  int64_t m, M, n, N;
};

// A product that oneDNN has prepared. A thread keeps it, because preparing one costs more than a
// small product.
struct Prepared {
  dnnl::matmul matmul;
  dnnl::memory::desc a, b, bias, c;
};

struct OneDnn {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  using Key = std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, bool, bool, bool,
                         bool, bool>;
  std::map<Key, Prepared> prepared;
};

// A row-major matrix of rows x columns, or the transpose of one.
dnnl::memory::desc matrix(int64_t rows, int64_t columns, dnnl::memory::data_type type,
                          int64_t stride, Transpose op = Transpose::no) {
  const dnnl::memory::dims strides =
      op == Transpose::yes ? dnnl::memory::dims{1, stride} : dnnl::memory::dims{stride, 1};
  return {{rows, columns}, type, strides};
}

template <class C>
Prepared prepare(const dnnl::engine& engine, const Gemm<BFloat16>& p, const Part& part) {
  constexpr auto bf16 = dnnl::memory::data_type::bf16;
  constexpr auto c_type = is_16_bit<C> ? bf16 : dnnl::memory::data_type::f32;
  dnnl::post_ops after;
  if (p.beta != 0) after.append_sum(p.beta);
  dnnl::primitive_attr attributes;
  attributes.set_post_ops(after);
  Prepared result{{},
                  matrix(part.M, p.K, bf16, p.row_of_a(), p.a_op),
                  matrix(p.K, part.N, bf16, p.row_of_b(), p.b_op),
                  p.bias ? matrix(1, part.N, bf16, part.N) : dnnl::memory::desc(),
                  matrix(part.M, part.N, c_type, p.row_of_c())};
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
void compute_part(C* c, const BFloat16* a, const BFloat16* b, const Gemm<BFloat16>& p,
                  const Part& part) {
  static thread_local OneDnn onednn;
  const OneThread one_thread;
  const bool a_transposed = p.a_op == Transpose::yes, b_transposed = p.b_op == Transpose::yes;
  const OneDnn::Key key{part.M,       part.N,       p.K,          p.row_of_a(), p.row_of_b(),
                        p.row_of_c(), a_transposed, b_transposed, p.beta != 0,  p.bias != nullptr,
                        is_16_bit<C>};
  auto at = onednn.prepared.find(key);
  if (at == onednn.prepared.end())
    at = onednn.prepared.emplace(key, prepare<C>(onednn.engine, p, part)).first;
  const Prepared& prepared = at->second;
  const auto memory = [&](const dnnl::memory::desc& description, const void* data) {
    return dnnl::memory(description, onednn.engine, const_cast<void*>(data));
  };
  C* const target = c + part.m * p.row_of_c() + part.n;
  std::unordered_map<int, dnnl::memory> arguments{
      {DNNL_ARG_SRC, memory(prepared.a, a + part.m * (a_transposed ? 1 : p.row_of_a()))},
      {DNNL_ARG_WEIGHTS, memory(prepared.b, b + part.n * (b_transposed ? p.row_of_b() : 1))},
      {DNNL_ARG_DST, memory(prepared.c, target)}};
  if (p.bias) arguments.emplace(DNNL_ARG_BIAS, memory(prepared.bias, p.bias + part.n));
  prepared.matmul.execute(onednn.stream, arguments);
  onednn.stream.wait();
  // The activation is computed here, because oneDNN's relu turns a NaN into 0.
  if (p.activation == Activation::none) return;
  with_formula(p.activation, [&](auto f) {
    for (int64_t m = 0; m < part.M; ++m)
      for (C& value : std::span(target + m * p.row_of_c(), static_cast<size_t>(part.N)))
        value = C(f(widen(value)));
  });
}

}  // namespace

bool processor_multiplies_bfloat16() {
  static const bool has = [] {
    const auto wanted = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_bf16);
    return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & wanted) == wanted;
  }();
  return has;
}

template <class C>
void gemm_bf16(C* c, const BFloat16* a, const BFloat16* b, const Gemm<BFloat16>& p) {
  constexpr int64_t chunk_products = 1 << 20, least_rows = 32, least_columns = 64;
  const int64_t chunks = std::max<int64_t>(1, p.M * p.N * p.K / chunk_products);
  const Partition columns(p.N, std::max(least_columns, ceil_div(p.N, chunks)));
  const Partition rows(p.M, std::max(least_rows, ceil_div(p.M, ceil_div(chunks, columns.parts))));
  parallel_chunks(rows.parts * columns.parts, any_slots, [&](int64_t chunk, int) {
    const int64_t row = chunk / columns.parts, column = chunk % columns.parts;
    try {
      compute_part(c, a, b, p,
                   {rows.begin(row), rows.size(row), columns.begin(column), columns.size(column)});
    } catch (const dnnl::error& error) {
      fail("[gemm] oneDNN refused {}x{}x{} in bf16: {}", p.M, p.N, p.K, error.what());
    }
  });
}

#else

bool processor_multiplies_bfloat16() { return false; }

template <class C>
void gemm_bf16(C*, const BFloat16*, const BFloat16*, const Gemm<BFloat16>&) {
  fail("[gemm] bf16 needs oneDNN, which this build does not have");
}

#endif

template void gemm_bf16(float*, const BFloat16*, const BFloat16*, const Gemm<BFloat16>&);
template void gemm_bf16(BFloat16*, const BFloat16*, const BFloat16*, const Gemm<BFloat16>&);

}  // namespace accrue::cpu
