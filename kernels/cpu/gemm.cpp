#include "kernels/cpu/gemm.h"

#include "core/ceil_div.h"
#include "kernels/backend.h"
#include "kernels/cpu/gemm_bf16.h"
#include "kernels/cpu/indirect_gemm.h"
#include "kernels/cpu/micro_kernel.h"
#include "kernels/detail/formulas.h"

namespace accrue::cpu {
namespace {

// A panel is as many columns of B as a block of C has. K is cut so that a panel's part, and 16-bit
// operands and results in float, have room on the stack and in the second-level cache.
template <class W>
constexpr int64_t panel_columns = table_vectors* lanes<W>;
constexpr int64_t panel_elements = panel_columns<float> * 192, most_depth = 512, blocks_apart = 8;

// c = op(A) b + (add ? c : 0) for a block; A from its first row and column on.
template <class W, int rows, int vectors, Transpose a_op>
void block_of_c(W* c, int64_t c_stride, const W* a, int64_t a_stride, const W* b, int64_t b_stride,
                int64_t K, bool add) {
  constexpr int64_t ahead = 8;  // rows of B that are fetched before they are wanted
  Lanes<W> sum[rows][vectors] = {};
  const W* a_at[a_op == Transpose::no ? rows : 1];
  if constexpr (a_op == Transpose::no)
#pragma GCC unroll 16
    for (int m = 0; m < rows; ++m) a_at[m] = a + m * a_stride;
  multiply_block<W, rows, vectors>(
      sum, K,
      [&](int m, int64_t k) {
        if constexpr (a_op == Transpose::no) return a_at[m][k];
        else return a[k * a_stride + m];
      },
      [&](int64_t k) {
        const W* row = b + k * b_stride;
        for (int v = 0; v < vectors; ++v) __builtin_prefetch(row + ahead * b_stride + v * lanes<W>);
        return row;
      });
  if (add) {
#pragma GCC unroll 16
    for (int m = 0; m < rows; ++m)
#pragma GCC unroll 16
      for (int v = 0; v < vectors; ++v) sum[m][v] += load(c + m * c_stride + v * lanes<W>);
  }
#pragma GCC unroll 16
  for (int m = 0; m < rows; ++m)
#pragma GCC unroll 16
    for (int v = 0; v < vectors; ++v) store_lanes(c + m * c_stride + v * lanes<W>, sum[m][v]);
}

template <class W>
using Block = void (*)(W*, int64_t, const W*, int64_t, const W*, int64_t, int64_t, bool);
template <class W, Transpose a_op>
constexpr auto blocks = make_blocks<Block<W>>(
    []<int rows, int vectors>(std::integral_constant<int, rows>,
                              std::integral_constant<int, vectors>) -> Block<W> {
      return block_of_c<W, rows, vectors, a_op>;
    });

// Part of C, [m, m + rows) x [n, n + columns), at most a panel wide.
struct Tile {
  int64_t m, rows, n, columns;
};

// Rows [k, k + depth) of a tile's panel of op(B), widened and padded with zeros to whole vectors.
template <class W, class T>
void pack_panel(W* out, int64_t stride, const T* b, const Product<T>& p, int64_t k, int64_t depth,
                const Tile& t) {
  const bool transposed = p.b_op == Transpose::yes;
  const T* from = transposed ? b + t.n * p.K + k : b + k * p.N + t.n;
  if constexpr (std::is_same_v<W, T>) {
    if (transposed) return transpose(out, stride, from, p.K, t.columns, depth);
    if (stride == t.columns) {
      for (int64_t i = 0; i < depth; ++i)
        for (int64_t j = 0; j < stride; j += lanes<W>)
          store_lanes(out + i * stride + j, load(from + i * p.N + j));
      return;
    }
  }
  for (int64_t i = 0; i < depth; ++i) {
    W* row = out + i * stride;
    if (transposed)
      for (int64_t j = 0; j < t.columns; ++j) row[j] = from[j * p.K + i];
    else std::copy_n(from + i * p.N, t.columns, row);
    std::fill_n(row + t.columns, stride - t.columns, W(0));
  }
}

// Some rows of C, at most a block's, times a panel b of `columns`.
template <class W>
void multiply_rows(W* c, int64_t c_stride, const W* a, int64_t a_stride, Transpose a_op,
                   int64_t rows, const W* b, int64_t b_stride, int64_t columns, int64_t depth,
                   bool add) {
  const int64_t vectors = ceil_div(columns, lanes<W>);
  const size_t index = block_index(rows, vectors);
  const Block<W> block =
      a_op == Transpose::no ? blocks<W, Transpose::no>[index] : blocks<W, Transpose::yes>[index];
  if (columns % lanes<W> == 0) return block(c, c_stride, a, a_stride, b, b_stride, depth, add);
  // The last vector would reach beyond C's row.
  W padded[block_rows * panel_columns<W>];
  block(padded, vectors * lanes<W>, a, a_stride, b, b_stride, depth, false);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t j = 0; j < columns; ++j) {
      const W value = padded[r * vectors * lanes<W> + j];
      c[r * c_stride + j] = add ? c[r * c_stride + j] + value : value;
    }
}

// C = A B^T is also C^T = B A^T, for which A is transposed, not B: for a layer whose micro-batch is
// smaller than its weight, that is less work, and the weight is read as it lies. A's rows become
// vectors, whose last one should not be too empty.
template <class T>
bool better_transposed(const Product<T>& p) {
  return p.a_op == Transpose::no && p.b_op == Transpose::yes && p.M <= p.N &&
         3 * round_up(p.M, lanes<Wide<T>>) <= 4 * p.M;
}

// How C is cut into chunks, by rows and by panels, and in which order a chunk goes through it.
template <class T, class W = Wide<T>>
struct Cut {
  Partition row_blocks, panels, row_groups{1, 1}, panel_groups{1, 1};
  int64_t blocks_at_once;
  bool packs;

  Cut(const Product<T>& p, bool transposed)
      : row_blocks(p.M, block_rows), panels(ceil_div(p.N, lanes<W>), vectors_beside(p.M)) {
    constexpr int64_t chunk_work = 1 << 20, many_blocks = 6, few_terms = 64;
    // A short sum is bound by the traffic of C, whose rows are then written from end to end.
    const bool by_rows = p.b_op == Transpose::no && p.K < p.M && p.K <= few_terms;
    // A panel is copied where it would be read against B's rows.
    packs = is_16_bit<T> || p.b_op == Transpose::yes;
    // An element that is moved costs as much as sixteen products.
    const int64_t work = p.M * p.N * p.K + 16 * (p.M * p.N + p.N * p.K + p.M * p.K);
    const int64_t chunks = std::clamp<int64_t>(work / chunk_work, 1, 1024);
    const int64_t least_blocks = by_rows ? 1 : transposed ? 2 * many_blocks : many_blocks;
    const int64_t wanted = by_rows ? chunks : ceil_div(chunks, panels.parts);
    // Two groups of few rows are better than none for a second thread.
    const int64_t two = std::clamp<int64_t>(row_blocks.parts / many_blocks, 1, 2);
    const int64_t by = std::min(wanted, std::max(two, row_blocks.parts / least_blocks));
    row_groups = Partition(row_blocks.parts, ceil_div(row_blocks.parts, by));
    const int64_t rest = std::min(ceil_div(chunks, row_groups.parts), panels.parts);
    panel_groups = Partition(panels.parts, ceil_div(panels.parts, rest));
    blocks_at_once = transposed     ? 2 * blocks_apart  // of half as many columns
                     : is_16_bit<T> ? blocks_apart
                     : by_rows      ? 1
                                    : row_blocks.parts;
  }

  int64_t column(int64_t panel) const { return panels.begin(panel) * lanes<W>; }
};

// Room for a panel, and for a tile's sums where C cannot hold them: 16-bit results are rounded, and
// those of C^T transposed, when they are complete.
template <class W>
struct Room {
  static constexpr int64_t panel_size =
      panel_elements * int64_t{sizeof(float)} / int64_t{sizeof(W)};
  alignas(64) W panel[panel_size];
  static constexpr int64_t most_rows = blocks_apart * block_rows;
  alignas(64) W sums[most_rows * panel_columns<W>];
  alignas(64) W transposed[(2 * most_rows + lanes<W>)*panel_columns<W> / 2];
};

// A tile of C = act(sums + bias) + beta * C.
template <class C, class T, class W>
void finish_tile(C* c, W* sums, int64_t stride, const Product<T>& p, const Tile& t, float beta) {
  with_formula(p.activation, [&](auto f) {
    with_beta(beta, [&](auto accumulate) {
      for (int64_t r = 0; r < t.rows; ++r) {
        W* row = sums + r * stride;
        if (p.bias)
          for (int64_t j = 0; j < t.columns; ++j) row[j] += p.bias[t.n + j];
        C* out = c + (t.m + r) * p.N + t.n;
        for (int64_t j = 0; j < t.columns; ++j) store(out[j], f(row[j]), accumulate);
      }
    });
  });
}

// One chunk's work on a tile of C, or, if `transposed`, on one of C^T that ends up in C.
template <class C, class T, class W = Wide<T>>
void compute_tile(C* c, const T* a, const T* b, const Product<T>& p, const Tile& t,
                  const Partition& row_blocks, int64_t first_block, int64_t last_block, bool packs,
                  bool transposed, Room<W>& room) {
  constexpr bool rounds = !std::is_same_v<C, W>;
  const bool sums_apart = rounds || transposed;
  const bool a_transposed = p.a_op == Transpose::yes;
  const int64_t a_stride = a_transposed ? p.M : p.K;
  const int64_t padded = round_up(t.columns, lanes<W>);
  const bool packed = packs || padded != t.columns;
  const int64_t stride = sums_apart ? padded : p.N;
  W* target = room.sums;
  if constexpr (!rounds)
    if (!transposed) target = c + t.m * p.N + t.n;
  const int64_t most = packed ? std::min(room.panel_size / padded, most_depth) : most_depth;
  for (int64_t k = 0; k == 0 || k < p.K; k += most) {
    const int64_t depth = std::min(most, p.K - k);
    const bool add = k > 0 || (!sums_apart && p.beta != 0);
    const W* b_at = room.panel;
    int64_t b_stride = padded;
    if (packed) pack_panel(room.panel, padded, b, p, k, depth, t);
    else if constexpr (std::is_same_v<T, W>) b_at = b + k * p.N + t.n, b_stride = p.N;
    for (int64_t block = first_block; block < last_block; ++block) {
      const int64_t m = row_blocks.begin(block), rows = row_blocks.size(block);
      const T* from = a_transposed ? a + k * a_stride + m : a + m * a_stride + k;
      W* to = target + (m - t.m) * stride;
      if constexpr (std::is_same_v<T, W>) {
        multiply_rows(to, stride, from, a_stride, p.a_op, rows, b_at, b_stride, t.columns, depth,
                      add);
      } else {
        W widened[block_rows * most_depth];
        for (int64_t r = 0; r < rows; ++r)
          for (int64_t j = 0; j < depth; ++j)
            widened[r * depth + j] = from[a_transposed ? j * a_stride + r : r * a_stride + j];
        multiply_rows(to, stride, widened, depth, Transpose::no, rows, b_at, b_stride, t.columns,
                      depth, add);
      }
    }
  }
  if (transposed) {
    const int64_t width = round_up(t.rows, lanes<W>);
    transpose(room.transposed, width, room.sums, padded, t.rows, t.columns);
    Product<T> q = p;
    q.N = p.M;
    finish_tile(c, room.transposed, width, q, Tile{t.n, t.columns, t.m, t.rows}, p.beta);
  } else if (sums_apart || p.bias || p.activation != Activation::none) {
    finish_tile(c, target, stride, p, t, sums_apart ? p.beta : 0);
  }
}

// For a few rows A and B^T are read as they lie, row by row: a vector of partial sums for each
// element of C.
constexpr int64_t few_rows = 8, dot_rows = 4, dot_columns = 6;

template <class T, int rows, int columns>
void dot_block(T* c, const Product<T>& p, const T* a, const T* b) {
  Lanes<T> sum[rows][columns] = {};
  const int64_t whole = p.K / lanes<T> * lanes<T>;
  for (int64_t k = 0; k < whole; k += lanes<T>) {
    Lanes<T> b_k[columns];
#pragma GCC unroll 16
    for (int n = 0; n < columns; ++n) b_k[n] = load(b + n * p.K + k);
#pragma GCC unroll 16
    for (int m = 0; m < rows; ++m) {
      const Lanes<T> a_k = load(a + m * p.K + k);
#pragma GCC unroll 16
      for (int n = 0; n < columns; ++n) sum[m][n] += a_k * b_k[n];
    }
  }
  constexpr int count = rows * columns, L = int{lanes<T>};
  T sums[round_up(count, L)];
#pragma GCC unroll 16
  for (int i = 0; i < count; i += L) {
    Lanes<T> some[L] = {};
#pragma GCC unroll 16
    for (int l = 0; l < L; ++l)
      if (i + l < count) some[l] = sum[(i + l) / columns][(i + l) % columns];
    store_lanes(sums + i, sums_of_lanes<T>(some));
  }
  for (int m = 0; m < rows; ++m)
    for (int n = 0; n < columns; ++n) {
      T value = sums[m * columns + n];
      for (int64_t k = whole; k < p.K; ++k) value += a[m * p.K + k] * b[n * p.K + k];
      if (p.bias) value += p.bias[n];
      c[m * p.N + n] = blend(activate(p.activation, value), p.beta, c[m * p.N + n]);
    }
}

template <class T>
void dot_gemm(T* c, const T* a, const T* b, const Product<T>& p) {
  using Dot = void (*)(T*, const Product<T>&, const T*, const T*);
  static constexpr auto dots = []<size_t... i>(std::index_sequence<i...>) {
    return std::array<Dot, sizeof...(i)>{dot_block<T, i / dot_columns + 1, i % dot_columns + 1>...};
  }
  (std::make_index_sequence<dot_rows * dot_columns>());
  const Partition rows(p.M, dot_rows), columns(p.N, dot_columns);
  parallel_for(columns.parts, dot_columns * p.K * rows.parts, [&](int64_t begin, int64_t end) {
    for (int64_t column = begin; column < end; ++column)
      for (int64_t row = 0; row < rows.parts; ++row) {
        const int64_t m = rows.begin(row), n = columns.begin(column);
        Product<T> part = p;
        if (p.bias) part.bias = p.bias + n;
        dots[static_cast<size_t>((rows.size(row) - 1) * dot_columns + columns.size(column) - 1)](
            c + m * p.N + n, part, a + m * p.K, b + n * p.K);
      }
  });
}

}  // namespace

template <class C, class T>
void gemm(C* c, const T* a, const T* b, const Product<T>& p) {
  if (p.M == 0 || p.N == 0) return;
  if constexpr (std::is_same_v<T, BFloat16>)
    if (p.K > 0 && processor_multiplies_bfloat16()) return gemm_bf16(c, a, b, p);
  if constexpr (std::is_same_v<T, Wide<T>>)
    if (p.a_op == Transpose::no && p.b_op == Transpose::yes && p.M <= few_rows)
      return dot_gemm(c, a, b, p);
  const bool transposed = better_transposed(p);
  Product<T> q = p;
  if (transposed) std::swap(a, b), std::swap(q.M, q.N);
  const Cut<T> cut(q, transposed);
  const int64_t chunks = cut.row_groups.parts * cut.panel_groups.parts;
  parallel_chunks(chunks, any_slots, [&](int64_t chunk, int) {
    const int64_t row_group = chunk / cut.panel_groups.parts;
    const int64_t panel_group = chunk % cut.panel_groups.parts;
    const int64_t last_block = cut.row_groups.begin(row_group + 1);
    const int64_t last_panel = cut.panel_groups.begin(panel_group + 1);
    Room<Wide<T>> room;
    for (int64_t block = cut.row_groups.begin(row_group); block < last_block;
         block += cut.blocks_at_once)
      for (int64_t panel = cut.panel_groups.begin(panel_group); panel < last_panel; ++panel) {
        const int64_t end = std::min(block + cut.blocks_at_once, last_block);
        const int64_t m = cut.row_blocks.begin(block), n = cut.column(panel);
        const Tile tile{m, cut.row_blocks.begin(end) - m, n,
                        std::min(q.N, cut.column(panel + 1)) - n};
        compute_tile(c, a, b, q, tile, cut.row_blocks, block, end, cut.packs, transposed, room);
      }
  });
}

template <class T>
void multiply_panel(Matrix<T> c, Matrix<const T> a, Transpose a_op, Matrix<const T> b,
                    const ProductSize& size, bool add) {
  const Partition rows(size.M, block_rows);
  for (int64_t block = 0; block < rows.parts; ++block) {
    const int64_t m = rows.begin(block);
    multiply_rows(c.data + m * c.stride, c.stride,
                  a.data + (a_op == Transpose::no ? m * a.stride : m), a.stride, a_op,
                  rows.size(block), b.data, b.stride, size.N, size.K, add);
  }
}

template void multiply_panel(Matrix<float>, Matrix<const float>, Transpose, Matrix<const float>,
                             const ProductSize&, bool);
template void multiply_panel(Matrix<double>, Matrix<const double>, Transpose, Matrix<const double>,
                             const ProductSize&, bool);
template void gemm(float*, const float*, const float*, const Product<float>&);
template void gemm(double*, const double*, const double*, const Product<double>&);
template void gemm(float*, const Half*, const Half*, const Product<Half>&);
template void gemm(Half*, const Half*, const Half*, const Product<Half>&);
template void gemm(float*, const BFloat16*, const BFloat16*, const Product<BFloat16>&);
template void gemm(BFloat16*, const BFloat16*, const BFloat16*, const Product<BFloat16>&);

}  // namespace accrue::cpu
