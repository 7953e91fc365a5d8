#include "kernels/detail/copy_strided.h"

#include <cstdlib>
#include <cstring>
#include <numeric>

#include "core/ceil_div.h"
#include "kernels/detail/reduce.h"

namespace accrue {

void StridedBox::add(int64_t size, int64_t to_stride, int64_t from_stride) {
  if (size == 1) return;
  if (rank == 1 && sizes[0] == 1) {
    sizes[0] = size;
  } else if (to[rank - 1] == size * to_stride && from[rank - 1] == size * from_stride) {
    sizes[rank - 1] *= size;
  } else {
    sizes[rank] = size;
    ++rank;
  }
  to[rank - 1] = to_stride;
  from[rank - 1] = from_stride;
}

StridedBox StridedBox::reversed() const {
  std::array<int, most_dimensions> order{};
  std::iota(order.begin(), order.begin() + rank, 0);
  std::stable_sort(order.begin(), order.begin() + rank,
                   [&](int a, int b) { return std::abs(from[a]) > std::abs(from[b]); });
  StridedBox back;
  back.to_begin = from_begin;
  back.from_begin = to_begin;
  for (int k = 0; k < rank; ++k) {
    const int d = order[k];
    // Backwards in what it writes is forwards there and backwards in what it reads.
    const bool is_backwards = from[d] < 0;
    if (is_backwards) {
      back.to_begin += (sizes[d] - 1) * from[d];
      back.from_begin += (sizes[d] - 1) * to[d];
    }
    back.add(sizes[d], std::abs(from[d]), is_backwards ? -to[d] : to[d]);
  }
  return back;
}

std::pair<StridedBox, StridedBox> StridedBox::halves() const {
  const auto d = std::max_element(sizes.begin(), sizes.begin() + rank) - sizes.begin();
  StridedBox first = *this, second = *this;
  first.sizes[d] /= 2;
  second.sizes[d] -= first.sizes[d];
  second.to_begin += first.sizes[d] * to[d];
  second.from_begin += first.sizes[d] * from[d];
  return {first, second};
}

void Placement::add(const PlacedDimension& next) {
  if (next.size == 1 && next.count == 1 && rank > 0) return;
  if (rank > 0) {
    PlacedDimension& last = dimensions[rank - 1];
    if (last.size == 1 && last.count == 1) {
      last = next;
      return;
    }
    if (next.is_full() && last.step == 1 && last.from == next.size * next.from) {
      last = {last.size * next.size, last.first * next.size, 1, last.count * next.size, next.from};
      return;
    }
  }
  dimensions[rank++] = next;
}

namespace cpu {
namespace {

// Calls row(to, from, n) for pieces of the box's innermost rows that cover elements [begin, end).
template <class Row>
void for_each_row(const StridedBox& box, int64_t begin, int64_t end, const Row& row) {
  const int last = box.rank - 1;
  const int64_t n = box.sizes[last], rows = last > 0 ? box.sizes[last - 1] : 1;
  int64_t i = begin % n;
  while (begin < end) {
    Offsets place = box.at(begin);
    for (int64_t r = begin / n % rows; r < rows && begin < end; ++r) {
      const int64_t count = std::min(n - i, end - begin);
      row(place.to, place.from, count);
      begin += count;
      if (last > 0) {
        place.to += box.to[last - 1] - i * box.to[last];
        place.from += box.from[last - 1] - i * box.from[last];
      }
      i = 0;
    }
  }
}

// out[k * out_step] = in[k * in_step], or added to it.
template <class T, bool accumulate>
void copy_row(T* out, int64_t out_step, const T* in, int64_t in_step, int64_t n,
              std::bool_constant<accumulate> how) {
  if (out_step == 1 && in_step == 1) {
    if constexpr (accumulate)
      for (int64_t k = 0; k < n; ++k) store(out[k], widen(in[k]), how);
    else std::copy_n(in, n, out);
  } else if (out_step == 1 && in_step == 0 && !accumulate) {
    std::fill_n(out, n, *in);
  } else if (out_step == 1 && in_step == -1) {
    for (int64_t k = 0; k < n; ++k) store(out[k], widen(in[-k]), how);
  } else {
    for (int64_t k = 0; k < n; ++k) store(out[k * out_step], widen(in[k * in_step]), how);
  }
}

// A dimension that `from` has contiguous and `to` has not, where a dimension is the other way
// round; -1 if there is none, or the two are so small that rows do as well.
int transposed_dimension(const StridedBox& box) {
  const int last = box.rank - 1;
  if (box.to[last] != 1 || box.from[last] == 1) return -1;
  for (int d = 0; d < last; ++d)
    if (box.from[d] == 1 && box.sizes[d] > 1 && box.sizes[d] * box.sizes[last] >= 64) return d;
  return -1;
}

// A square tile of a transposition, which fits the first-level cache.
constexpr int64_t tile = 32;

// out[r * out_stride + c] = in[c * in_stride + r], or added to it, r < rows and c < columns, both
// at most `tile`. Goes by a copy of the tile, because rows that lie a power of two apart would
// drive each other out of the cache.
template <class T, bool accumulate>
void transpose_tile(T* out, int64_t out_stride, const T* in, int64_t in_stride, int64_t rows,
                    int64_t columns, std::bool_constant<accumulate> how) {
  T copy[tile][tile];
  if (rows == tile && columns == tile) {
    for (int64_t c = 0; c < tile; ++c) std::memcpy(copy[c], in + c * in_stride, sizeof copy[c]);
    for (int64_t r = 0; r < tile; ++r)
      for (int64_t c = 0; c < tile; ++c) store(out[r * out_stride + c], widen(copy[c][r]), how);
    return;
  }
  for (int64_t c = 0; c < columns; ++c) std::copy_n(in + c * in_stride, rows, copy[c]);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) store(out[r * out_stride + c], widen(copy[c][r]), how);
}

template <class T, class Accumulate>
void copy_transposed(T* to, const T* from, const StridedBox& box, int q, Accumulate accumulate) {
  const int last = box.rank - 1;
  const int64_t down = ceil_div(box.sizes[q], tile), across = ceil_div(box.sizes[last], tile);
  // The tiles of a matrix are neighbours, whatever is between its dimensions.
  StridedBox matrices;
  matrices.to_begin = box.to_begin;
  matrices.from_begin = box.from_begin;
  for (int d = 0; d < last; ++d)
    if (d != q) matrices.add(box.sizes[d], box.to[d], box.from[d]);
  parallel_each(matrices.numel() * down * across, tile * tile, [&](int64_t t) {
    const Offsets place = matrices.at(t / (down * across));
    const int64_t r = t / across % down * tile, c = t % across * tile;
    transpose_tile(to + place.to + r * box.to[q] + c, box.to[q],
                   from + place.from + r + c * box.from[last], box.from[last],
                   std::min(tile, box.sizes[q] - r), std::min(tile, box.sizes[last] - c),
                   accumulate);
  });
}

template <class T, class Accumulate>
void copy_box(T* to, const T* from, const StridedBox& box, Accumulate accumulate) {
  if (const int q = transposed_dimension(box); q >= 0)
    return copy_transposed(to, from, box, q, accumulate);
  const int64_t out_step = box.to[box.rank - 1], in_step = box.from[box.rank - 1];
  parallel_for(box.numel(), 1, [&](int64_t begin, int64_t end) {
    for_each_row(box, begin, end, [&](int64_t t, int64_t f, int64_t n) {
      copy_row(to + t, out_step, from + f, in_step, n, accumulate);
    });
  });
}

}  // namespace

void copy_strided(GradTarget to, View from, const StridedBox& box) {
  if (to.beta == 0)
    dispatch_bits(from.dtype, [&]<class Bits>() {
      copy_box(bits_of<Bits>(to.grad), bits_of<const Bits>(from), box, std::false_type{});
    });
  else
    dispatch_floating(from.dtype, [&]<class T>() {
      copy_box(to.grad.as<T>(), from.as<const T>(), box, std::true_type{});
    });
}

namespace {

// Columns [begin, end) of a row.
template <class T>
void place_columns(T* row, const T* from, const PlacedDimension& d, int64_t begin, int64_t end,
                   T value) {
  const int64_t first =
      std::clamp<int64_t>(begin <= d.first ? 0 : ceil_div(begin - d.first, d.step), 0, d.count);
  int64_t column = begin;
  if (d.step == 1) {
    const int64_t copied = std::clamp(d.first + first, begin, end);
    const int64_t n = std::clamp<int64_t>(d.first + d.count - copied, 0, end - copied);
    std::fill(row + begin, row + copied, value);
    copy_row(row + copied, 1, from + first * d.from, d.from, n, std::false_type{});
    column = copied + n;
  } else {
    for (int64_t k = first; k < d.count && d.first + k * d.step < end; ++k) {
      const int64_t copied = d.first + k * d.step;
      std::fill(row + column, row + copied, value);
      row[copied] = from[k * d.from];
      column = copied + 1;
    }
  }
  std::fill(row + column, row + end, value);
}

template <class T>
T bits_with(DType dtype, double value) {
  if (dtype == DType::i32) return static_cast<T>(static_cast<int32_t>(value));
  if (dtype == DType::u8) return static_cast<T>(value);
  T bits = 0;
  dispatch_floating(dtype, [&]<class F>() {
    const F rounded = F(static_cast<Wide<F>>(value));
    if constexpr (sizeof(F) == sizeof(T)) std::memcpy(&bits, &rounded, sizeof bits);
  });
  return bits;
}

}  // namespace

void place(View to, View from, const Placement& placement, double value) {
  const int last = placement.rank - 1;
  const PlacedDimension& inner = placement.dimensions[last];
  dispatch_bits(to.dtype, [&]<class T>() {
    T* const out = bits_of<T>(to);
    const T *const in = bits_of<const T>(from), other = bits_with<T>(to.dtype, value);
    parallel_for(to.numel(), 1, [&](int64_t begin, int64_t end) {
      while (begin < end) {
        const int64_t row = begin / inner.size, column = begin % inner.size;
        const int64_t until = std::min(inner.size, column + end - begin);
        int64_t source = placement.from_begin, rest = row;
        bool has_source = true;
        for (int d = last - 1; d >= 0; --d) {
          const PlacedDimension& outer = placement.dimensions[d];
          const int64_t i = outer.source(rest % outer.size);
          has_source = has_source && 0 <= i && i < outer.count;
          source += i * outer.from;
          rest /= outer.size;
        }
        T* const out_row = out + row * inner.size;
        if (has_source) place_columns(out_row, in + source, inner, column, until, other);
        else std::fill(out_row + column, out_row + until, other);
        begin += until - column;
      }
    });
  });
}

namespace {

// Outputs beside each other that are summed at once, and terms that are added in Wide<T> before
// they are added in double.
constexpr int64_t sum_outputs = 256, sum_run = 256;

// Offsets of the terms' rows, from first to last, and how they go on within a row.
template <class Row>
void for_each_term_row(const StridedBox& terms, const Row& row) {
  const int64_t n = terms.sizes[terms.rank - 1], count = terms.numel();
  for (int64_t r = 0; r < count; r += n) row(terms.at(r).from, n);
}

// sums[k] = sum_r in[k * step + r] for k < n, n at most sum_outputs.
template <class T>
void sum_columns(double* sums, const T* in, int64_t step, int64_t n, const StridedBox& terms) {
  const int64_t term_step = terms.from[terms.rank - 1];
  Wide<T> part[sum_outputs] = {};
  std::fill_n(sums, n, 0.0);
  int64_t added = 0;
  const auto add_part = [&] {
    for (int64_t k = 0; k < n; ++k) sums[k] += std::exchange(part[k], Wide<T>(0));
    added = 0;
  };
  for_each_term_row(terms, [&](int64_t offset, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      const T* const x = in + offset + i * term_step;
      if (step == 1)
        for (int64_t k = 0; k < n; ++k) part[k] += x[k];
      else
        for (int64_t k = 0; k < n; ++k) part[k] += x[k * step];
      if (++added == sum_run) add_part();
    }
  });
  add_part();
}

}  // namespace

void sum_strided(GradTarget to, View from, const StridedBox& box, const StridedBox& terms) {
  const int64_t out_step = box.to[box.rank - 1], in_step = box.from[box.rank - 1];
  const bool in_rows = terms.from[terms.rank - 1] == 1 && in_step != 1;
  dispatch_floating(from.dtype, [&]<class T>() {
    T* const out = to.grad.as<T>();
    const T* const in = from.as<const T>();
    const auto sum_piece = [&](int64_t t, int64_t f, int64_t n) {
      double sums[sum_outputs];
      if (!in_rows) sum_columns(sums, in + f, in_step, n, terms);
      for (int64_t k = 0; in_rows && k < n; ++k) {
        sums[k] = 0;
        for_each_term_row(terms, [&](int64_t offset, int64_t count) {
          const T* const x = in + f + k * in_step + offset;
          sums[k] += sum_of<Wide<T>>(count, [=](int64_t i) { return widen(x[i]); });
        });
      }
      for (int64_t k = 0; k < n; ++k) {
        T& target = out[t + k * out_step];
        target = blend(static_cast<Wide<T>>(sums[k]), to.beta, target);
      }
    };
    parallel_for(box.numel(), terms.numel(), [&](int64_t begin, int64_t end) {
      for_each_row(box, begin, end, [&](int64_t t, int64_t f, int64_t n) {
        for (int64_t k = 0; k < n; k += sum_outputs)
          sum_piece(t + k * out_step, f + k * in_step, std::min(sum_outputs, n - k));
      });
    });
  });
}

}  // namespace cpu
}  // namespace accrue
