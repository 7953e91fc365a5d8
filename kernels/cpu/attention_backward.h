#pragma once

#include "kernels/cpu/attention_forward.h"
#include "kernels/detail/self_attention_kernels.h"

namespace accrue::cpu {

template <class T, class W = Wide<T>>
struct BackwardScratch {
  W *q, *k, *v, *dy, *queries, *dys, *a, *ds, *dq, *L, *t;
  int32_t* starts;
  size_t bytes;

  BackwardScratch(const CausalTiling<W>& t, void* base) {
    BumpAllocator allocator(base);
    const int64_t copied = needs_copy<T>(t.D) ? t.width : 0,
                  v_copied = needs_copy<T>(t.E) ? t.v_width : 0;
    q = allocator.take<W>(t.columns * copied);
    k = allocator.take<W>(t.keys * copied);
    v = allocator.take<W>(t.keys * v_copied);
    dy = allocator.take<W>(t.columns * v_copied);
    queries = allocator.take<W>(t.D * t.columns);
    dys = allocator.take<W>(t.E * t.columns);
    a = allocator.take<W>(t.keys * t.columns);
    ds = allocator.take<W>(t.keys * t.columns);
    dq = allocator.take<W>(t.columns * t.width);
    L = allocator.take<W>(t.columns);
    this->t = allocator.take<W>(t.columns);
    starts = allocator.take<int32_t>(t.columns);
    bytes = allocator.used();
  }
};

// How backward is cut. A chunk is a group of a row. Where there are few groups, each is cut into
// parts, which take turns at the group's blocks of queries; in the end their sums are added up.
template <class T, class W = Wide<T>>
struct BackwardTiling : CausalTiling<W> {
  int64_t blocks_of_group, parts, chunks, slot_count, sums_count, slot_bytes, sums, all_sums;

  explicit BackwardTiling(const CausalSizes& s) : CausalTiling<W>(s) {
    constexpr int64_t wanted = 12, least_products = 1 << 20;
    const int64_t groups = s.N * s.G;
    const auto products = static_cast<int64_t>(s.pairs() * double(3 * s.D + 2 * s.E));
    blocks_of_group = s.heads_of_group() * this->vectors.parts;
    parts = std::clamp<int64_t>(
        std::min(ceil_div(wanted, groups), products / groups / least_products), 1, blocks_of_group);
    chunks = groups * parts;
    slot_bytes = static_cast<int64_t>(BackwardScratch<T>(*this, nullptr).bytes);
    sums = s.T * this->width;
    all_sums = sums + s.T * this->v_width;
    slot_count = this->slots(chunks, slot_bytes / int64_t{sizeof(W)} + all_sums);
    sums_count = parts == 1 ? slot_count : chunks;
  }
  size_t bytes() const {
    return static_cast<size_t>(slot_count * slot_bytes +
                               sums_count * all_sums * int64_t{sizeof(W)});
  }
  BackwardScratch<T> slot(View scratch, int64_t slot) const {
    return {*this, static_cast<std::byte*>(scratch.data) + slot * slot_bytes};
  }
  // dk [T, width] of a chunk, followed by its dv [T, v_width].
  W* sums_of(View scratch, int64_t chunk, int64_t slot) const {
    std::byte* all = static_cast<std::byte*>(scratch.data) + slot_count * slot_bytes;
    return reinterpret_cast<W*>(all) + (parts == 1 ? slot : chunk) * all_sums;
  }
};

template <class T, class W = Wide<T>>
struct CausalBackward {
  BackwardTiling<T> t;
  const CausalTargets& targets;
  Heads<const T> q, k, v, y, dy;
  const W* L;

  CausalBackward(const CausalTargets& targets, View dy, View y, View L, const CausalInputs& in)
      : t(CausalSizes(in)),
        targets(targets),
        q(in.q.of<const T>(t.D)),
        k(in.k.of<const T>(t.D)),
        v(in.v.of<const T>(t.E)),
        y(HeadColumns{y}.of<const T>(t.E)),
        dy(HeadColumns{dy}.of<const T>(t.E)),
        L(L.as<const W>()) {}

  // Adds to dk and dv in `sums` the part that a block of queries contributes, and stores their dq.
  void differentiate(const QueryBlock& block, const BackwardScratch<T>& x, W* sums) const {
    const int64_t n = block.n, h = block.h, first = block.first, rows = block.rows,
                  columns = block.columns;
    const int64_t g = h / t.heads_of_group();
    const auto queries = rows_of<T>(x.q, rows_from(q, n, first, h), rows, t.D);
    const auto dys = rows_of<T>(x.dy, rows_from(dy, n, first, h), rows, t.E);
    transpose(x.queries, columns, queries.data, queries.stride, rows, t.D);
    transpose(x.dys, columns, dys.data, dys.stride, rows, t.E);
    take_sums(block, x);
    const Matrix<W> a{x.a, columns}, ds{x.ds, columns}, dq{x.dq, t.width};
    const Matrix<const W> a_in{x.a, columns}, ds_in{x.ds, columns};
    std::fill_n(x.dq, rows * t.width, W(0));
    const bool are_queries_finite = is_finite(queries, rows, t.width) &&
                                    is_finite(dys, rows, t.v_width) &&
                                    is_finite<W>({x.t, columns}, 1, rows);
    for_each_block(block, [&](const ScoreBlock& b) {
      const auto keys = rows_of<T>(x.k, rows_from(k, n, b.key, g), b.keys, t.D);
      const auto values = rows_of<T>(x.v, rows_from(v, n, b.key, g), b.keys, t.E);
      const bool isolates =
          hides_some(b, block) && !(are_queries_finite && is_finite(keys, b.keys, t.width) &&
                                    is_finite(values, b.keys, t.v_width));
      const NotFinite treatment = isolates ? NotFinite::isolated : NotFinite::multiplied;
      multiply_heads(a, b, keys, {x.queries, columns}, t.D);
      recompute(a, b, x.L);
      if (isolates) mark_queries(a, b, dys, t.v_width);
      hide_unseen(a, b, block, W(0));
      W *dk = sums + b.key * t.width, *dv = sums + t.sums + b.key * t.v_width;
      if (targets.dv) add_over_queries({dv, t.v_width}, b, a_in, dys, t.v_width, treatment);
      if (!targets.dk && !targets.dq) return;
      multiply_heads(ds, b, values, {x.dys, columns}, t.E);
      differentiate_scores(ds, a_in, b, x.t);
      if (isolates) {
        mark_keys(ds, b, keys, t.width);
        mark_queries(ds, b, queries, t.width);
        hide_unseen(ds, b, block, W(0));
      }
      if (targets.dk) add_over_queries({dk, t.width}, b, ds_in, queries, t.width, treatment);
      if (targets.dq) add_over_keys(dq, b, ds_in, keys, t.width, treatment);
    });
    if (targets.dq) store_rows(targets.dq, {n, h, first, first + rows}, x.dq, t.D);
  }

  // Stores rows [begin, end) of a group's dk and dv. Before that it adds the sums of the other
  // parts to the first part's sums.
  void store_group(int64_t group, int64_t begin, int64_t end, W* sums) const {
    const auto add_parts = [&](W* of_target, int64_t width) {
      for (int64_t part = 1; part < t.parts; ++part)
        for (int64_t i = begin * width; i < end * width; ++i)
          of_target[i] += of_target[part * t.all_sums + i];
      return of_target + begin * width;
    };
    const W *dk = add_parts(sums, t.width), *dv = add_parts(sums + t.sums, t.v_width);
    const HeadRows rows{group / t.G, group % t.G, begin, end};
    if (targets.dk) store_rows(targets.dk, rows, dk, t.D);
    if (targets.dv) store_rows(targets.dv, rows, dv, t.E);
  }

 private:
  // Copies L and computes t of the block's queries. Columns without a query get zeros.
  void take_sums(const QueryBlock& block, const BackwardScratch<T>& x) const {
    std::fill_n(x.L, block.columns, W(0));
    std::fill_n(x.t, block.columns, W(0));
    std::copy_n(L + (block.n * t.H + block.h) * t.Tq + block.first, block.rows, x.L);
    for (int64_t i = 0; i < block.rows; ++i) {
      const T *y_i = y.at(block.n, block.first + i, block.h),
              *dy_i = dy.at(block.n, block.first + i, block.h);
      W sum = 0;
#pragma omp simd reduction(+ : sum)
      for (int64_t e = 0; e < t.E; ++e) sum += dy_i[e] * y_i[e];
      x.t[i] = sum;
    }
  }

  // Turns scores into probabilities.
  void recompute(Matrix<W> a, const ScoreBlock& b, const W* log_sums) const {
    const W scale = static_cast<W>(t.scale());
    for (int64_t r = 0; r < b.keys; ++r) {
      W* row = a.data + r * a.stride;
#pragma omp simd
      for (int64_t i = first_column<W>(b, r); i < b.columns; ++i)
        row[i] = vector_exp(scale * row[i] - log_sums[i]);
    }
  }

  // Turns gradients of probabilities into gradients of scores.
  void differentiate_scores(Matrix<W> ds, Matrix<const W> a, const ScoreBlock& b,
                            const W* means) const {
    const W scale = static_cast<W>(t.scale());
    for (int64_t r = 0; r < b.keys; ++r) {
      W* row = ds.data + r * ds.stride;
      const W* a_row = a.data + r * a.stride;
#pragma omp simd
      for (int64_t i = first_column<W>(b, r); i < b.columns; ++i)
        row[i] = score_gradient(a_row[i], row[i], means[i], scale);
    }
  }

  struct HeadRows {
    int64_t n, h, begin, end;
  };
  // out = x + beta * out, x [rows, width] with `channels` that count.
  void store_rows(const HeadTarget& out, const HeadRows& rows, const W* x, int64_t channels) const {
    const Heads<T> to = out.of<T>(channels);
    const int64_t width = round_up(channels, lanes<W>);
    with_beta(out.target->beta, [&](auto accumulate) {
      for (int64_t r = rows.begin; r < rows.end; ++r, x += width) {
        T* row = to.at(rows.n, r, rows.h);
#pragma omp simd
        for (int64_t d = 0; d < channels; ++d) store(row[d], x[d], accumulate);
      }
    });
  }
};

}  // namespace accrue::cpu
