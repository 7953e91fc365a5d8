#include "kernels/cpu/packed_gemm.h"

#include <algorithm>

#include "core/ceil_div.h"
#include "kernels/backend.h"
#include "kernels/cpu/indirect_gemm.h"
#include "kernels/detail/formulas.h"

namespace accrue::cpu {
namespace {

// A block of C is block_height rows of a panel's columns. Beside a block's copied rows of A, half a
// first-level cache of 32 KiB holds the copied piece of a panel; the second level holds the blocks
// that use the piece one after the other.
constexpr int block_height = 6, panel_vectors = 2;
constexpr int64_t piece_depth = 256, most_blocks = 16, most_panels = 24;
// The blocks and chunks that a product is cut into. A chunk copies its own rows and columns, so few
// chunks make few copies, and many serve more threads.
constexpr int64_t chunk_blocks = 44, wanted_chunks = 8;
// A copied element of A serves N products, and one of B M.
constexpr int64_t least_rows = 64, least_columns = 256, least_terms = 16;
constexpr int64_t rows_at_once = 8;  // when rows are copied to several blocks or panels in turn

template <class T>
constexpr int64_t panel_columns = panel_vectors* lanes<T>;
template <class T>
constexpr int64_t block_stride = round_up(int64_t{block_height}, lanes<T>);
template <class T>
constexpr int64_t copied_block = piece_depth* block_stride<T>;
template <class T>
constexpr int64_t copied_panel = piece_depth* panel_columns<T>;

template <class T>
struct Copies {
  alignas(64) T a[most_blocks * copied_block<T>];
  alignas(64) T b[most_panels * copied_panel<T>];
};

// Elements [begin, begin + size) of a dimension of the product.
struct Range {
  int64_t begin, size;
};

// C = A B, or C + A B, for a block of C and copies of its rows of A and its panel of B.
template <class T>
void multiply_copies(Matrix<T> c, const T* a, const T* b, int64_t K, Result result) {
  for (int m = 0; m < block_height; ++m)
    for (const int64_t n : {int64_t{0}, panel_columns<T> - 1})
      __builtin_prefetch(c.data + m * c.stride + n);
  Lanes<T> sum[block_height][panel_vectors] = {};
  multiply_block<T, block_height, panel_vectors>(
      sum, K, [&](int m, int64_t k) { return a[k * block_stride<T> + m]; },
      [&](int64_t k) { return b + k * panel_columns<T>; });
  if (result == Result::add) {
#pragma GCC unroll 16
    for (int m = 0; m < block_height; ++m)
#pragma GCC unroll 16
      for (int v = 0; v < panel_vectors; ++v)
        sum[m][v] += load(c.data + m * c.stride + v * lanes<T>);
  }
  store_block(c.data, c.stride, sum);
}

// Does the same for a block that C's edge cuts to rows x columns.
template <class T>
void multiply_at_edge(Matrix<T> c, const T* a, const T* b, const GemmSize& size, Result result) {
  T whole[block_height * panel_columns<T>];
  multiply_copies<T>({whole, panel_columns<T>}, a, b, size.K, Result::write);
  for (int64_t m = 0; m < size.M; ++m)
    for (int64_t n = 0; n < size.N; ++n) {
      T& out = c.data[m * c.stride + n];
      const T value = whole[m * panel_columns<T> + n];
      out = result == Result::add ? out + value : value;
    }
}

// out[i, j] = from[i, j] for j < columns, and 0 for the rest of out's columns.
template <int64_t width, class T>
void copy_rows(T* out, Matrix<const T> from, int64_t rows, int64_t columns) {
  for (int64_t i = 0; i < rows; ++i, out += width) {
    const T* const row = from.data + i * from.stride;
    if (columns >= width) {
#pragma GCC unroll 16
      for (int64_t j = 0; j < width; j += lanes<T>) store_lanes(out + j, load(row + j));
    } else {
      std::copy_n(row, columns, out);
      std::fill(out + columns, out + width, T(0));
    }
  }
}

// Copies some terms of rows of op(A), or of columns of op(B), in groups of `count`. A group is a
// matrix with a row of `width` elements for each term, whose elements behind `count` are not read.
// across: in x each element of a group has a row, not each term.
template <int64_t count, int64_t width, class T>
void copy_groups(T* out, Matrix<const T> x, bool across, Range elements, Range terms) {
  constexpr int64_t group = piece_depth * width;
  if (across) {
    for (int64_t i = 0; i < elements.size; i += count, out += group)
      transpose(out, width, x.from(elements.begin + i, terms.begin).data, x.stride,
                std::min(count, elements.size - i), terms.size);
    return;
  }
  // Only a few rows at once: the next group's elements are in the same lines of the cache.
  for (int64_t k = 0; k < terms.size; k += rows_at_once)
    for (int64_t i = 0; i < elements.size; i += count)
      copy_rows<width>(out + i / count * group + k * width,
                       x.from(terms.begin + k, elements.begin + i),
                       std::min(rows_at_once, terms.size - k), elements.size - i);
}

// A product, and how it is cut into chunks: some blocks of rows of C, and some panels.
template <class T>
struct PackedGemm {
  Matrix<T> c;
  Matrix<const T> a, b;
  const Gemm<T>& gemm;
  Partition panels, blocks;

  PackedGemm(T* c, const T* a, const T* b, const Gemm<T>& g)
      : c{c, g.row_of_c()},
        a{a, g.row_of_a()},
        b{b, g.row_of_b()},
        gemm(g),
        panels(ceil_div(g.N, panel_columns<T>), most_panels),
        blocks(count_blocks(), std::clamp(count_blocks() * panels.parts / wanted_chunks,
                                          most_blocks, chunk_blocks)) {}

  int64_t count_blocks() const { return ceil_div(gemm.M, int64_t{block_height}); }
  int64_t chunks() const { return blocks.parts * panels.parts; }

  void compute_chunk(int64_t chunk, Copies<T>& copies) const {
    const int64_t group = chunk / panels.parts, first = blocks.begin(group);
    const Range columns = columns_of(chunk % panels.parts);
    const Partition at_once(blocks.size(group), most_blocks);
    for (int64_t k = 0; k < gemm.K; k += piece_depth) {
      const Range terms{k, std::min(piece_depth, gemm.K - k)};
      copy_groups<panel_columns<T>, panel_columns<T>>(copies.b, b, gemm.b_op == Transpose::yes,
                                                      columns, terms);
      for (int64_t i = 0; i < at_once.parts; ++i) {
        const int64_t m = (first + at_once.begin(i)) * block_height;
        const Range rows{m, std::min(at_once.size(i) * block_height, gemm.M - m)};
        copy_groups<block_height, block_stride<T>>(copies.a, a, gemm.a_op == Transpose::no, rows,
                                                   terms);
        multiply(rows, columns, terms, copies);
      }
    }
  }

 private:
  Range columns_of(int64_t part) const {
    const int64_t begin = panels.begin(part) * panel_columns<T>;
    return {begin, std::min(panels.size(part) * panel_columns<T>, gemm.N - begin)};
  }

  void multiply(Range rows, Range columns, Range terms, const Copies<T>& copies) const {
    const Result result = terms.begin > 0 || gemm.beta != 0 ? Result::add : Result::write;
    const bool finishes = terms.begin + terms.size == gemm.K;
    for (int64_t j = 0; j < columns.size; j += panel_columns<T>) {
      const T* const panel = copies.b + j / panel_columns<T> * copied_panel<T>;
      const int64_t width = std::min(panel_columns<T>, columns.size - j);
      for (int64_t i = 0; i < rows.size; i += block_height) {
        const T* const block = copies.a + i / block_height * copied_block<T>;
        const int64_t height = std::min<int64_t>(block_height, rows.size - i);
        const Matrix<T> out = c.from(rows.begin + i, columns.begin + j);
        if (height == block_height && width == panel_columns<T>)
          multiply_copies(out, block, panel, terms.size, result);
        else multiply_at_edge(out, block, panel, {height, width, terms.size}, result);
      }
      if (finishes) finish(rows, {columns.begin + j, width});
    }
  }

  // c = act(c + bias)
  void finish(Range rows, Range columns) const {
    if (!gemm.bias && gemm.activation == Activation::none) return;
    with_formula(gemm.activation, [&](auto f) {
      for (int64_t m = 0; m < rows.size; ++m) {
        T* const out = c.from(rows.begin + m, columns.begin).data;
        if (gemm.bias)
          for (int64_t n = 0; n < columns.size; ++n) out[n] += gemm.bias[columns.begin + n];
        for (int64_t n = 0; n < columns.size; ++n) out[n] = f(out[n]);
      }
    });
  }
};

}  // namespace

template <class T>
bool packing_pays(const Gemm<T>& g) {
  return vector_registers == 16 && g.M >= least_rows && g.N >= least_columns && g.K >= least_terms;
}

template <class T>
void packed_gemm(T* c, const T* a, const T* b, const Gemm<T>& g) {
  const PackedGemm<T> product(c, a, b, g);
  parallel_chunks(product.chunks(), any_slots, [&](int64_t chunk, int) {
    Copies<T> copies;
    product.compute_chunk(chunk, copies);
  });
}

template bool packing_pays(const Gemm<float>&);
template bool packing_pays(const Gemm<double>&);
template void packed_gemm(float*, const float*, const float*, const Gemm<float>&);
template void packed_gemm(double*, const double*, const double*, const Gemm<double>&);

}  // namespace accrue::cpu
