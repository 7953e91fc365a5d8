#include "kernels/cpu/gemm.h"

#include "core/ceil_div.h"
#include "kernels/backend.h"
#include "kernels/cpu/dot_gemm.h"
#include "kernels/cpu/gemm_bf16.h"
#include "kernels/cpu/indirect_gemm.h"
#include "kernels/cpu/packed_gemm.h"
#include "kernels/detail/formulas.h"

namespace accrue::cpu {
namespace {

// A panel has as many columns of B as a block of C has. K is cut into pieces: a panel's piece, and
// 16-bit operands and results in float, must fit on the stack and into the second-level cache.
// Without AVX-512, pieces of block_vectors vectors fit into the first-level cache.
constexpr bool wide_blocks = vector_registers == 32;
template <class W>
constexpr int64_t panel_columns = table_vectors* lanes<W>;
constexpr int64_t panel_elements = panel_columns<float> * (wide_blocks ? 192 : 256);
constexpr int64_t most_depth = wide_blocks ? 512 : 256, blocks_apart = 8;
// The rows of a transposed A are copied: packed_blocks blocks and packed_depth terms at once, for
// up to packed_panels panels. The elements of such a row lie a row of A^T apart. Only a few of them
// fit into a cache, since they share few of its sets, and each lies on another page.
constexpr int64_t packed_blocks = wide_blocks ? 14 : 32, packed_depth = wide_blocks ? 192 : 256;
constexpr int64_t packed_panels = 16;
static_assert(packed_depth * panel_columns<float> <= panel_elements);

// c = op(a) b, or c + op(a) b, for a block of c.
template <class W, int rows, int vectors, Transpose a_op>
void multiply_block_of(Matrix<W> c, Matrix<const W> a, Matrix<const W> b, int64_t K,
                       Result result) {
  constexpr int64_t ahead = 8;  // rows of B that are prefetched
  Lanes<W> sum[rows][vectors] = {};
  const W* a_at[a_op == Transpose::no ? rows : 1];
  if constexpr (a_op == Transpose::no)
#pragma GCC unroll 16
    for (int m = 0; m < rows; ++m) a_at[m] = a.data + m * a.stride;
  multiply_block<W, rows, vectors>(
      sum, K,
      [&](int m, int64_t k) {
        if constexpr (a_op == Transpose::no) return a_at[m][k];
        else return a.data[k * a.stride + m];
      },
      [&](int64_t k) {
        const W* row = b.data + k * b.stride;
        for (int v = 0; v < vectors; ++v) __builtin_prefetch(row + ahead * b.stride + v * lanes<W>);
        return row;
      });
  if (result == Result::add) {
#pragma GCC unroll 16
    for (int m = 0; m < rows; ++m)
#pragma GCC unroll 16
      for (int v = 0; v < vectors; ++v) sum[m][v] += load(c.data + m * c.stride + v * lanes<W>);
  }
  store_block(c.data, c.stride, sum);
}

template <class W>
using Block = void (*)(Matrix<W>, Matrix<const W>, Matrix<const W>, int64_t, Result);
template <class W, Transpose a_op>
constexpr auto blocks = make_blocks<Block<W>>(
    []<int rows, int vectors>(std::integral_constant<int, rows>,
                              std::integral_constant<int, vectors>) -> Block<W> {
      return multiply_block_of<W, rows, vectors, a_op>;
    });

// Multiplies some rows of A, at most a block's, by a panel b.
template <class W>
void multiply_rows(Matrix<W> c, Matrix<const W> a, Transpose a_op, Matrix<const W> b,
                   const GemmSize& size, Result result) {
  const int64_t vectors = ceil_div(size.N, lanes<W>);
  const size_t index = block_index(size.M, vectors);
  const Block<W> block =
      a_op == Transpose::no ? blocks<W, Transpose::no>[index] : blocks<W, Transpose::yes>[index];
  if (size.N % lanes<W> == 0) return block(c, a, b, size.K, result);
  // The last vector would reach beyond C's row.
  W padded[block_rows * panel_columns<W>];
  const int64_t stride = vectors * lanes<W>;
  block({padded, stride}, a, b, size.K, Result::write);
  const int64_t whole = size.N / lanes<W> * lanes<W>;
  for (int64_t m = 0; m < size.M; ++m) {
    W* const out = c.data + m * c.stride;
    const W* const sums = padded + m * stride;
    for (int64_t n = 0; n < whole; n += lanes<W>)
      store_lanes(out + n, result == Result::add ? load(out + n) + load(sums + n) : load(sums + n));
    for (int64_t n = whole; n < size.N; ++n)
      out[n] = result == Result::add ? out[n] + sums[n] : sums[n];
  }
}

// C = A B^T is also C^T = B A^T, which transposes A, not B. For a layer whose micro-batch is
// smaller than its weight, this is less work, and the weight is read as it lies. A's rows become
// the lanes of vectors, so the last vector should not be too empty.
enum class Form { c, c_transposed };
template <class T>
Form better_form(const Gemm<T>& g) {
  const bool transposed = g.a_op == Transpose::no && g.b_op == Transpose::yes && g.M <= g.N &&
                          3 * round_up(g.M, lanes<Wide<T>>) <= 4 * g.M;
  return transposed ? Form::c_transposed : Form::c;
}

// Part of C, at most a panel wide: rows [m, m + rows), which are blocks [first_block, end_block),
// and columns [n, n + columns).
struct Tile {
  int64_t m, rows, n, columns, first_block = 0, end_block = 0;
};

// True if the sums can be stored in C itself.
template <class C, class T>
bool sums_in_c(const Gemm<T>& g, Form form) {
  return std::is_same_v<C, Wide<T>> && form == Form::c && !g.bias &&
         g.activation == Activation::none;
}

// How a product in a form runs. C is cut into chunks by rows and by panels; a chunk computes one
// tile after another, panel by panel.
template <class T, class W = Wide<T>>
struct GemmTiling {
  Form form;
  int64_t N;
  Partition row_blocks, panels, row_groups{1, 1}, panel_groups{1, 1};
  int64_t blocks_at_once;
  bool packs, packs_a;

  GemmTiling(const Gemm<T>& g, Form form, bool sums_in_c)
      : form(form),
        N(g.N),
        row_blocks(g.M, block_rows),
        panels(ceil_div(g.N, lanes<W>), vectors_beside(g.M)) {
    constexpr int64_t chunk_work = 1 << 20, few_terms = 64, many_terms = 1 << 14, page_bytes = 4096;
    constexpr int64_t some_blocks = wide_blocks ? 6 : 14, many_blocks = wide_blocks ? 15 : 64;
    const bool transposed = form == Form::c_transposed;
    // The traffic of C limits a product of short sums, so C's rows are written from end to end.
    const bool by_rows = g.b_op == Transpose::no && g.K < g.M && g.K <= few_terms;
    // A panel is copied if it would be read across B's rows, or if its own rows would share sets of
    // the cache or come from memory. Short rows of narrow vectors lie on too many pages as they
    // are.
    const bool rows_collide =
        !wide_blocks || g.N * int64_t{sizeof(T)} % page_bytes == 0 || g.K >= many_terms;
    packs = is_16_bit<T> || g.b_op == Transpose::yes ||
            (!by_rows && rows_collide && row_blocks.parts > some_blocks);
    packs_a = sums_in_c && g.a_op == Transpose::yes && g.K > few_terms;
    if (packs_a) {
      row_groups = Partition(row_blocks.parts, packed_blocks);
      panel_groups = Partition(panels.parts, packed_panels);
      blocks_at_once = packed_blocks;
      return;
    }
    // Moving an element costs as much as sixteen products.
    const int64_t work = g.M * g.N * g.K + 16 * (g.M * g.N + g.N * g.K + g.M * g.K);
    const int64_t chunks = std::clamp<int64_t>(work / chunk_work, 1, 1024);
    const int64_t least_blocks = by_rows      ? 1
                                 : transposed ? 2 * some_blocks
                                 : packs      ? many_blocks
                                              : some_blocks;
    const int64_t wanted = by_rows ? chunks : ceil_div(chunks, panels.parts);
    // Two groups of few rows are better than a second thread without work.
    const int64_t two = std::clamp<int64_t>(row_blocks.parts / some_blocks, 1, 2);
    const int64_t by = std::min(wanted, std::max(two, row_blocks.parts / least_blocks));
    row_groups = Partition(row_blocks.parts, ceil_div(row_blocks.parts, by));
    const int64_t rest = std::min(ceil_div(chunks, row_groups.parts), panels.parts);
    panel_groups = Partition(panels.parts, ceil_div(panels.parts, rest));
    blocks_at_once = transposed     ? 2 * blocks_apart  // blocks of half as many columns
                     : is_16_bit<T> ? blocks_apart
                     : by_rows      ? 1
                                    : row_blocks.parts;
  }

  int64_t chunks() const { return row_groups.parts * panel_groups.parts; }
  // A tile of whole vectors may be read where its columns lie in B.
  bool packs_tile(const Tile& t) const { return packs || t.columns % lanes<W> != 0; }
  // The first row of a chunk, and the number of its rows.
  std::pair<int64_t, int64_t> rows_of(int64_t chunk) const {
    const int64_t group = chunk / panel_groups.parts;
    const int64_t m = row_blocks.begin(row_groups.begin(group));
    return {m, row_blocks.begin(row_groups.begin(group + 1)) - m};
  }
  // Calls body(tile) for each tile of a chunk.
  template <class Body>
  void for_each_tile(int64_t chunk, Body&& body) const {
    const int64_t row_group = chunk / panel_groups.parts, panel_group = chunk % panel_groups.parts;
    const int64_t last_block = row_groups.begin(row_group + 1);
    for (int64_t block = row_groups.begin(row_group); block < last_block; block += blocks_at_once)
      for (int64_t panel = panel_groups.begin(panel_group);
           panel < panel_groups.begin(panel_group + 1); ++panel) {
        const int64_t end = std::min(block + blocks_at_once, last_block);
        const int64_t m = row_blocks.begin(block), n = panels.begin(panel) * lanes<W>;
        const int64_t n_end = std::min(N, panels.begin(panel + 1) * lanes<W>);
        body(Tile{m, row_blocks.begin(end) - m, n, n_end - n, block, end});
      }
  }
};

// A chunk's scratch: a panel, packed rows of A, and a tile's sums if C cannot hold them. When the
// sums are complete, they are rounded for a C in 16 bits, and transposed if they are of C^T.
template <class W>
struct GemmScratch {
  static constexpr int64_t panel_size =
      panel_elements * int64_t{sizeof(float)} / int64_t{sizeof(W)};
  alignas(64) W panel[panel_size];
  alignas(64) W a[packed_blocks * block_rows * packed_depth];
  static constexpr int64_t most_rows = blocks_apart * block_rows;
  alignas(64) W sums[most_rows * panel_columns<W>];
  alignas(64) W transposed[(2 * most_rows + lanes<W>)*panel_columns<W> / 2];
};

// The arguments that all chunks of a product share. a and b are in the tiling's form, c is the
// target, and terms [k_begin, k_end) are added now.
template <class C, class T>
struct TiledGemm {
  Matrix<C> c;
  Matrix<const T> a, b;
  const Gemm<T>& gemm;
  const GemmTiling<T>& tiling;
  int64_t k_begin, k_end;
};

// Rows [k, k + depth) of a tile's panel of op(B), widened and padded with zeros to whole vectors.
template <class W, class T>
void pack_panel(Matrix<W> out, Matrix<const T> b, const Gemm<T>& g, int64_t k, int64_t depth,
                const Tile& t) {
  const bool transposed = g.b_op == Transpose::yes;
  const T* from = transposed ? b.from(t.n, k).data : b.from(k, t.n).data;
  if constexpr (std::is_same_v<W, T>) {
    if (transposed) return transpose(out.data, out.stride, from, b.stride, t.columns, depth);
    if (out.stride == t.columns) {
      for (int64_t i = 0; i < depth; ++i)
        for (int64_t j = 0; j < out.stride; j += lanes<W>)
          store_lanes(out.data + i * out.stride + j, load(from + i * b.stride + j));
      return;
    }
  }
  for (int64_t i = 0; i < depth; ++i) {
    W* row = out.data + i * out.stride;
    if (transposed)
      for (int64_t j = 0; j < t.columns; ++j) row[j] = from[j * b.stride + i];
    else std::copy_n(from + i * b.stride, t.columns, row);
    std::fill_n(row + t.columns, out.stride - t.columns, W(0));
  }
}

// A tile of C = act(sums + bias) + beta * C.
template <class C, class T, class W>
void finish_tile(const TiledGemm<C, T>& x, Matrix<W> sums, const Tile& t, float beta) {
  with_formula(x.gemm.activation, [&](auto f) {
    with_beta(beta, [&](auto accumulate) {
      for (int64_t r = 0; r < t.rows; ++r) {
        W* row = sums.data + r * sums.stride;
        if (x.gemm.bias)
          for (int64_t j = 0; j < t.columns; ++j) row[j] += x.gemm.bias[t.n + j];
        C* out = x.c.data + (t.m + r) * x.c.stride + t.n;
        for (int64_t j = 0; j < t.columns; ++j) store(out[j], f(row[j]), accumulate);
      }
    });
  });
}

// Terms [k, k + depth) of a product's sums.
struct Terms {
  int64_t k, depth;
};

// Computes these terms of a tile's sums, and writes or adds them. packed_a has the tile's rows of
// A, transposed like A, or is null if they are not packed.
template <class C, class T, class W>
void multiply_terms(const TiledGemm<C, T>& x, const Tile& t, Terms terms, Matrix<W> sums,
                    const W* packed_a, GemmScratch<W>& scratch, Result result) {
  const Gemm<T>& g = x.gemm;
  const auto [k, depth] = terms;
  const bool a_transposed = g.a_op == Transpose::yes;
  const int64_t padded = round_up(t.columns, lanes<W>);
  Matrix<const W> panel{scratch.panel, padded};
  if (x.tiling.packs_tile(t)) pack_panel<W>({scratch.panel, padded}, x.b, g, k, depth, t);
  else if constexpr (std::is_same_v<T, W>) panel = x.b.from(k, t.n);
  for (int64_t block = t.first_block; block < t.end_block; ++block) {
    const int64_t m = x.tiling.row_blocks.begin(block), rows = x.tiling.row_blocks.size(block);
    const Matrix<const T> from = a_transposed ? x.a.from(k, m) : x.a.from(m, k);
    const auto multiply = [&](Matrix<const W> a, Transpose a_op) {
      multiply_rows(sums.from(m - t.m, 0), a, a_op, panel, {rows, t.columns, depth}, result);
    };
    if (packed_a) {
      multiply({packed_a + m - t.m, t.rows}, Transpose::yes);
    } else if constexpr (std::is_same_v<T, W>) {
      multiply(from, g.a_op);
    } else {
      W widened[block_rows * most_depth];
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t j = 0; j < depth; ++j)
          widened[r * depth + j] =
              from.data[a_transposed ? j * from.stride + r : r * from.stride + j];
      multiply({widened, depth}, Transpose::no);
    }
  }
}

// Computes a tile of C, or of C^T in the transposed form.
template <class C, class T, class W = Wide<T>>
void compute_tile(const TiledGemm<C, T>& x, const Tile& t, GemmScratch<W>& scratch) {
  constexpr bool rounds = !std::is_same_v<C, W>;
  const Gemm<T>& g = x.gemm;
  const bool transposed = x.tiling.form == Form::c_transposed;
  const bool sums_apart = rounds || transposed;
  const int64_t padded = round_up(t.columns, lanes<W>);
  Matrix<W> sums{scratch.sums, padded};
  if constexpr (!rounds)
    if (!transposed) sums = x.c.from(t.m, t.n);
  const int64_t most =
      x.tiling.packs_tile(t) ? std::min(scratch.panel_size / padded, most_depth) : most_depth;
  for (int64_t k = x.k_begin; k == x.k_begin || k < x.k_end; k += most) {
    const bool adds = k > 0 || (!sums_apart && g.beta != 0);
    multiply_terms<C, T, W>(x, t, {k, std::min(most, x.k_end - k)}, sums, nullptr, scratch,
                            adds ? Result::add : Result::write);
  }
  if (transposed) {
    const Matrix<W> back{scratch.transposed, round_up(t.rows, lanes<W>)};
    transpose(back.data, back.stride, scratch.sums, padded, t.rows, t.columns);
    finish_tile(x, back, Tile{t.n, t.columns, t.m, t.rows}, g.beta);
  } else if (sums_apart || g.bias || g.activation != Activation::none) {
    finish_tile(x, sums, t, sums_apart ? g.beta : 0);
  }
}

// Computes a chunk of a C that holds the sums itself, from an A whose rows are packed.
template <class C, class T, class W = Wide<T>>
void compute_packed_chunk(const TiledGemm<C, T>& x, int64_t chunk, GemmScratch<W>& scratch) {
  if constexpr (std::is_same_v<C, W>) {
    const Gemm<T>& g = x.gemm;
    const auto [m, rows] = x.tiling.rows_of(chunk);
    for (int64_t k = x.k_begin; k < x.k_end; k += packed_depth) {
      const Terms terms{k, std::min(packed_depth, x.k_end - k)};
      for (int64_t i = 0; i < terms.depth; ++i)
        std::copy_n(x.a.from(k + i, m).data, rows, scratch.a + i * rows);
      const Result result = k > 0 || g.beta != 0 ? Result::add : Result::write;
      x.tiling.for_each_tile(chunk, [&](const Tile& t) {
        multiply_terms<C, T, W>(x, t, terms, x.c.from(t.m, t.n), scratch.a, scratch, result);
      });
    }
  }
}

// The number of terms that all chunks add to C's sums before any of them goes on. If sums are long
// and C stays in the cache, the parts of A and B for these terms stay there, too; otherwise each
// chunk would read its rows and columns to the end, from memory. The number is a multiple of every
// depth of a panel, so it does not change how sums are cut.
template <class C, class T>
int64_t terms_at_once(const Gemm<T>& g, Form form) {
  constexpr int64_t terms = 1536, cached_elements = 1 << 18;
  const bool pays = g.K >= 2 * terms && g.M * g.N <= cached_elements;
  return sums_in_c<C>(g, form) && pays ? terms : std::max<int64_t>(g.K, 1);
}

}  // namespace

template <class C, class T>
void gemm(C* c, const T* a, const T* b, const Gemm<T>& g) {
  if (g.M == 0 || g.N == 0) return;
  if constexpr (std::is_same_v<T, BFloat16>)
    if (g.K > 0 && processor_multiplies_bfloat16()) return gemm_bf16(c, a, b, g);
  if constexpr (std::is_same_v<T, Wide<T>>) {
    if (g.a_op == Transpose::no && g.b_op == Transpose::yes && g.M <= few_rows)
      return dot_gemm(c, a, b, g);
    if (packing_pays(g)) return packed_gemm(c, a, b, g);
  }
  const Form form = better_form(g);
  Gemm<T> formed = g;
  Matrix<const T> first{a, g.row_of_a()}, second{b, g.row_of_b()};
  if (form == Form::c_transposed) std::swap(first, second), std::swap(formed.M, formed.N);
  const GemmTiling<T> tiling(formed, form, sums_in_c<C>(formed, form));
  const int64_t terms = terms_at_once<C>(formed, form);
  for (int64_t k = 0; k == 0 || k < g.K; k += terms) {
    const TiledGemm<C, T> x{{c, g.row_of_c()},       first, second, formed, tiling, k,
                            std::min(g.K, k + terms)};
    parallel_chunks(tiling.chunks(), any_slots, [&](int64_t chunk, int) {
      GemmScratch<Wide<T>> scratch;
      if (tiling.packs_a) return compute_packed_chunk(x, chunk, scratch);
      tiling.for_each_tile(chunk, [&](const Tile& tile) { compute_tile(x, tile, scratch); });
    });
  }
}

template <class T>
void multiply_panel(Matrix<T> c, Matrix<const T> a, Transpose a_op, Matrix<const T> b,
                    const GemmSize& size, Result result) {
  const Partition rows(size.M, block_rows);
  for (int64_t block = 0; block < rows.parts; ++block) {
    const int64_t m = rows.begin(block);
    multiply_rows(c.from(m, 0), a_op == Transpose::no ? a.from(m, 0) : a.from(0, m), a_op, b,
                  {rows.size(block), size.N, size.K}, result);
  }
}

template void multiply_panel(Matrix<float>, Matrix<const float>, Transpose, Matrix<const float>,
                             const GemmSize&, Result);
template void multiply_panel(Matrix<double>, Matrix<const double>, Transpose, Matrix<const double>,
                             const GemmSize&, Result);
template void gemm(float*, const float*, const float*, const Gemm<float>&);
template void gemm(double*, const double*, const double*, const Gemm<double>&);
template void gemm(float*, const Half*, const Half*, const Gemm<Half>&);
template void gemm(Half*, const Half*, const Half*, const Gemm<Half>&);
template void gemm(float*, const BFloat16*, const BFloat16*, const Gemm<BFloat16>&);
template void gemm(BFloat16*, const BFloat16*, const BFloat16*, const Gemm<BFloat16>&);

}  // namespace accrue::cpu
