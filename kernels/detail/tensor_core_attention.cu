#include <algorithm>
#include <limits>

#include "kernels/detail/attention_fragments.cuh"
#include "kernels/detail/self_attention_kernels.h"
#include "kernels/detail/tensor_core_attention.h"

namespace accrue::cuda {
namespace {

constexpr float log2_of_e = 1.44269504f, ln_of_2 = 0.693147181f;

// The keys that a lane's queries see, also by a key mask; `row` is the first query of the block.
template <class T, bool is_masked>
struct SeenKeys {
  const Operands<T>& in;
  const CausalSizes& s;
  int n, row;
  int begin, end;                // the keys that any of the block's queries sees
  int begin_of_all, end_of_all;  // the keys that each of the warp's queries sees

  __device__ SeenKeys(const Operands<T>& in, int n, int row, const CausalSizes& s)
      : in(in), s(s), n(n), row(row) {
    const int least = in.first_key_of(fragment_rows, n, row, s), Tq = static_cast<int>(s.Tq);
    begin = least < 0 ? 0 : least;
    end = in.end_of_keys(n, (row + fragment_rows < Tq ? row + fragment_rows : Tq) - 1, s);
    const int firsts[2] = {first(0), first(1)};
    begin_of_all = warp_max(firsts[0] > firsts[1] ? firsts[0] : firsts[1]);
    end_of_all = in.end_of_keys(n, row + first_row_of_warp(), s);
  }
  // The first key that query r of the lane sees.
  __device__ int first(int r) const { return in.first_key(n, row + row_of_lane(r), s); }
  __device__ bool has_all(int key, int count) const {
    return !is_masked && begin_of_all <= key && key + count <= end_of_all;
  }
  // Returns is_seen(r, column): whether query r of the lane sees key + column.
  __device__ auto from(int key) const {
    const auto end_of = [&](int r) { return in.end_of_keys(n, row + row_of_lane(r), s); };
    const int firsts[2] = {first(0) - key, first(1) - key},
              ends[2] = {end_of(0) - key, end_of(1) - key};
    const T* const mask = is_masked ? in.mask_from(n, key, s) : nullptr;
    return [=](int r, int column) {
      return firsts[r] <= column && column < ends[r] && (!is_masked || is_unmasked(mask, column));
    };
  }
};

// The tiles of keys and values that a block's queries see. The next tile is copied while one is in
// use.
template <class T, int columns, int channels>
struct KeyTiles {
  ColumnTile<T, columns, channels> keys[2], values[2];

  // Calls use(key, buffer) for each tile, in order. Every thread of the block must call it.
  template <bool is_masked, class Use>
  __device__ void for_each(const Operands<T>& in, const SeenKeys<T, is_masked>& seen, int64_t n,
                           int64_t g, int D, Use&& use) {
    const auto copy = [&](int key, int buffer) {
      if (key < seen.end) {
        keys[buffer].copy(HeadRows<T>(in.k, n, key, g), D);
        values[buffer].copy(HeadRows<T>(in.v, n, key, g), D);
      }
      __pipeline_commit();
    };
    copy(seen.begin, 0);
    int buffer = 0;
    for (int key = seen.begin; key < seen.end; key += columns, buffer ^= 1) {
      copy(key + columns, buffer ^ 1);
      __pipeline_wait_prior(1);
      __syncthreads();
      use(key, buffer);
      __syncthreads();  // all threads are done before the buffer is overwritten
    }
  }
};

// y and L. A lane keeps the largest score so far of its two rows, and the sum of its own elements.
template <class T, int columns, int channels, bool is_masked>
__global__ void __launch_bounds__(fragment_threads, channels == 64 && !is_masked ? 3 : 2)
    attend_fragments_kernel(Target<T> y, float* L, Operands<T> in, CausalSizes s, float scale) {
  __shared__ KeyTiles<T, columns, channels> tiles;
  const Place place(s.Tq, s.H, fragment_rows);
  const int n = static_cast<int>(place.n), h = static_cast<int>(place.h),
            row = static_cast<int>(place.row), D = static_cast<int>(s.D);
  const WarpRows<T, channels> queries(HeadRows<T>(in.q, n, row, h), D);
  const SeenKeys<T, is_masked> seen(in, n, row, s);
  const float to_log2 = scale * log2_of_e;
  RowSums<channels> sums;
  float largest[2], exponentials[2];
  const auto pass = [&](NotFinite treatment) {
    for (auto& of_eight : sums)
      for (float& sum : of_eight) sum = 0;
    for (int r = 0; r < 2; ++r) {
      largest[r] = std::numeric_limits<float>::lowest();
      exponentials[r] = 0;
    }
    tiles.for_each(in, seen, n, h / s.heads_of_group(), D, [&](int key, int buffer) {
      RowSums<columns> a;
      multiply(a, queries, tiles.keys[buffer]);
      if (!seen.has_all(key, columns))
        hide(a, -std::numeric_limits<float>::infinity(), seen.from(key));
      float most[2] = {largest[0], largest[1]}, factors[2];
      for (int c = 0; c < columns; c += 8)
        for (int e = 0; e < 4; ++e) {
          const float score = a[c / 8][e] *= to_log2;
          most[e / 2] = std::fmax(score, most[e / 2]);  // leaves NaN out
        }
      for (int r = 0; r < 2; ++r) {
        most[r] = row_max(most[r]);
        factors[r] = std::exp2(largest[r] - most[r]);
        exponentials[r] *= factors[r];
        largest[r] = most[r];
      }
      for (int c = 0; c < columns; c += 8)
        for (int e = 0; e < 4; ++e) {
          a[c / 8][e] = std::exp2(a[c / 8][e] - largest[e / 2]);
          exponentials[e / 2] += a[c / 8][e];
        }
      for (int d = 0; d < channels; d += 8)
        for (int e = 0; e < 4; ++e) sums[d / 8][e] *= factors[e / 2];
      if (treatment == NotFinite::isolated) isolate(a, tiles.values[buffer], D, seen.from(key));
      add_weighted(sums, a, tiles.values[buffer]);
    });
  };
  sum_isolated(pass, [&] { return has_nan(sums); });
  for (int r = 0; r < 2; ++r) {
    exponentials[r] = row_sum(exponentials[r]);
    if (seen.first(r) < 0) exponentials[r] = std::numeric_limits<float>::quiet_NaN();
    if constexpr (is_masked) finish_softmax(in, exponentials[r], largest[r]);
    const int64_t i = row + row_of_lane(r);
    if (lane_of_warp() % 4 == 0 && i < s.Tq)
      L[(n * s.H + h) * s.Tq + i] = ln_of_2 * (largest[r] + std::log2(exponentials[r]));
  }
  for (int d = 0; d < channels; d += 8)
    for (int e = 0; e < 4; ++e) sums[d / 8][e] /= exponentials[e / 2];
  store_rows<T, channels>(y, sums, n, row, h, D);
}

// dq.
template <class T, int columns, int channels, bool is_masked>
__global__ void __launch_bounds__(fragment_threads, channels == 64 && !is_masked ? 3 : 2)
    query_gradient_fragments_kernel(Target<T> dq, OutputGradient<T> out, Operands<T> in,
                                    CausalSizes s, float scale) {
  __shared__ KeyTiles<T, columns, channels> tiles;
  const Place place(s.Tq, s.H, fragment_rows);
  const int n = static_cast<int>(place.n), h = static_cast<int>(place.h),
            row = static_cast<int>(place.row), D = static_cast<int>(s.D);
  const WarpRows<T, channels> queries(HeadRows<T>(in.q, n, row, h), D),
      dys(HeadRows<T>(out.dy, n, row, h), D);
  const SeenKeys<T, is_masked> seen(in, n, row, s);
  const float to_log2 = scale * log2_of_e;
  float L[2] = {}, t[2] = {};
  for (int r = 0; r < 2; ++r)
    if (const int64_t i = row + row_of_lane(r); i < s.Tq) {
      L[r] = log2_of_e * out.L[(n * s.H + h) * s.Tq + i];
      t[r] = out.t[(n * s.H + h) * s.Tq + i];
    }
  RowSums<channels> sums;
  const auto pass = [&](NotFinite treatment) {
    for (auto& of_eight : sums)
      for (float& sum : of_eight) sum = 0;
    WeightScales<T> scales;
    tiles.for_each(in, seen, n, h / s.heads_of_group(), D, [&](int key, int buffer) {
      RowSums<columns> ds, da;
      multiply(ds, queries, tiles.keys[buffer]);
      multiply(da, dys, tiles.values[buffer]);
      for (int c = 0; c < columns; c += 8)
        for (int e = 0; e < 4; ++e) {
          const float a = std::exp2(to_log2 * ds[c / 8][e] - L[e / 2]);
          ds[c / 8][e] = score_gradient(a, da[c / 8][e], t[e / 2], scale);
        }
      if (!seen.has_all(key, columns)) hide(ds, 0, seen.from(key));
      if (treatment == NotFinite::isolated) isolate(ds, tiles.keys[buffer], D, seen.from(key));
      scales.divide(ds, sums);
      add_weighted(sums, ds, tiles.keys[buffer]);
    });
    scales.multiply(sums);
  };
  sum_isolated(pass, [&] { return has_nan(sums); });
  store_rows<T, channels>(dq, sums, n, row, h, D);
}

// Some queries of a head, from `query` on.
struct QueryTile {
  int h, query;
  int first_key, end;  // the keys that the lane's query sees
  bool sees_all;       // whether each query sees all keys of the warp
};

// The query of a column of scores, where the columns are queries.
struct ColumnQuery {
  float L, t;
  int first_key, end;  // the keys that it sees
};

// Adds up the sums that the blocks of some keys have of their parts of the heads. Each block stores
// its own, and the last one adds all of them in the order of parts, so the bits do not depend on
// which block is last. Returns false in the others. A thread has the same elements in every part.
template <class... Sums>
__device__ bool add_parts(float* scratch, Sums&... sums) {
  const auto for_each = [&](unsigned part, const auto& use) {
    const int64_t block = int64_t{part} * gridDim.x + blockIdx.x;
    auto* vectors =
        reinterpret_cast<float4*>(scratch + block * HeadParts::block_sums) + threadIdx.x;
    const auto of_sums = [&]<size_t size>(float(&of)[size][4]) {
      for (size_t k = 0; k < size; ++k) use(of[k], vectors[k * fragment_threads]);
      vectors += size * fragment_threads;
    };
    (of_sums(sums), ...);
  };
  for_each(blockIdx.y, [](const float(&of)[4], float4& to) { to = {of[0], of[1], of[2], of[3]}; });
  if (!is_last_block(blockIdx.x, gridDim.y)) return false;
  for (unsigned part = 0; part < gridDim.y; ++part)
    for_each(part, [&](float(&of)[4], const float4& from) {
      const float4 loaded = __ldcg(&from);
      const float values[]{loaded.x, loaded.y, loaded.z, loaded.w};
      for (int e = 0; e < 4; ++e) of[e] = part == 0 ? values[e] : of[e] + values[e];
    });
  return true;
}

// dk and dv, or one of them. Rows are keys, and columns are the queries of the heads of a group,
// head by head: of block y's part of them. A thread stores dk before dv.
template <class T, int columns, int channels, bool wants_dk, bool wants_dv>
__global__ void __launch_bounds__(fragment_threads, 2)
    key_gradients_fragments_kernel(Target<T> dk, Target<T> dv, float* scratch,
                                   OutputGradient<T> out, Operands<T> in, CausalSizes s,
                                   float scale) {
  static_assert(columns == warp_threads, "a lane looks at the query of a column");
  __shared__ ColumnTile<T, columns, channels> queries[2], dys[2];
  __shared__ ColumnQuery of_columns[2][columns];
  const Place place(s.T, s.G, fragment_rows);
  // Most queries see the first keys, so their blocks come first.
  const int n = static_cast<int>(place.n), g = static_cast<int>(place.h),
            row = static_cast<int>((s.T - 1) / fragment_rows * fragment_rows - place.row);
  const int warp_row = row + first_row_of_warp(), D = static_cast<int>(s.D),
            Tq = static_cast<int>(s.Tq);
  const WarpRows<T, channels> keys(HeadRows<T>(in.k, n, row, g), D),
      values(HeadRows<T>(in.v, n, row, g), D);
  const float to_log2 = scale * log2_of_e;
  const T* const mask = in.mask_from(n, row, s);
  const int heads = static_cast<int>(s.heads_of_group()), part = static_cast<int>(blockIdx.y),
            parts = static_cast<int>(gridDim.y), first_head = g * heads + heads * part / parts,
            last_head = g * heads + heads * (part + 1) / parts;
  // The first query that sees the first key.
  const int first = s.is_causal && row > s.T - s.Tq ? row - static_cast<int>(s.T - s.Tq) : 0;
  // Leaves out tiles in which no query sees a key of the block.
  const auto next_of = [&](QueryTile tile) {
    do {
      tile.query += columns;
      if (tile.query >= Tq) ++tile.h, tile.query = first;
      const int i = tile.query + lane_of_warp();
      tile.first_key = in.first_key(n, i, s);
      tile.end = in.end_of_keys(n, i, s);
    } while (tile.h < last_head && !__any_sync(whole_warp, tile.first_key < row + fragment_rows));
    tile.sees_all =
        __all_sync(whole_warp, tile.first_key <= warp_row && warp_row + warp_rows <= tile.end) &&
        !in.key_mask;
    return tile;
  };
  const auto copy = [&](const QueryTile& tile, int buffer) {
    if (tile.h < last_head) {
      queries[buffer].copy(HeadRows<T>(in.q, n, tile.query, tile.h), D);
      dys[buffer].copy(HeadRows<T>(out.dy, n, tile.query, tile.h), D);
      if (threadIdx.x < columns) {
        const int i = tile.query + threadIdx.x;
        const int64_t at = (n * s.H + tile.h) * s.Tq + i;
        const bool there = i < Tq;
        of_columns[buffer][threadIdx.x] = {there ? log2_of_e * out.L[at] : 0,
                                           there && wants_dk ? out.t[at] : 0, tile.first_key,
                                           tile.end};
      }
    }
    __pipeline_commit();
  };
  RowSums<channels> dk_sums, dv_sums;
  const auto pass = [&](NotFinite treatment) {
    for (int d = 0; d < channels; d += 8)
      for (int e = 0; e < 4; ++e) dk_sums[d / 8][e] = dv_sums[d / 8][e] = 0;
    WeightScales<T> scales;  // of dk
    QueryTile tile = next_of({first_head, first - columns, 0, 0, false});
    copy(tile, 0);
    for (int buffer = 0; tile.h < last_head; buffer ^= 1) {
      const QueryTile next = next_of(tile);
      copy(next, buffer ^ 1);
      __pipeline_wait_prior(1);
      __syncthreads();
      const auto is_seen = [&](int r, int column) {
        const ColumnQuery& query = of_columns[buffer][column];
        const int j = row + row_of_lane(r);
        return query.first_key <= j && j < query.end && is_unmasked(mask, row_of_lane(r));
      };
      RowSums<columns> a;
      multiply(a, keys, queries[buffer]);
      for (int c = 0; c < columns; c += 8)
        for (int e = 0; e < 4; ++e)
          a[c / 8][e] =
              std::exp2(to_log2 * a[c / 8][e] - of_columns[buffer][c + column_of_lane(e)].L);
      if (!tile.sees_all) hide(a, 0, is_seen);
      if constexpr (wants_dv) {
        if (treatment == NotFinite::isolated) isolate(a, dys[buffer], D, is_seen);
        add_weighted(dv_sums, a, dys[buffer]);
      }
      if constexpr (wants_dk) {
        RowSums<columns> ds;
        multiply(ds, values, dys[buffer]);
        for (int c = 0; c < columns; c += 8)
          for (int e = 0; e < 4; ++e)
            ds[c / 8][e] = score_gradient(a[c / 8][e], ds[c / 8][e],
                                          of_columns[buffer][c + column_of_lane(e)].t, scale);
        if (treatment == NotFinite::isolated) isolate(ds, queries[buffer], D, is_seen);
        scales.divide(ds, dk_sums);
        add_weighted(dk_sums, ds, queries[buffer]);
      }
      __syncthreads();  // all threads are done before the buffer is overwritten
      tile = next;
    }
    if constexpr (wants_dk) scales.multiply(dk_sums);
  };
  sum_isolated(pass, [&] { return has_nan(dk_sums, dv_sums); });
  if (parts > 1) {
    bool is_last;
    if constexpr (wants_dk && wants_dv) is_last = add_parts(scratch, dk_sums, dv_sums);
    else if constexpr (wants_dk) is_last = add_parts(scratch, dk_sums);
    else is_last = add_parts(scratch, dv_sums);
    if (!is_last) return;
  }
  if constexpr (wants_dk) store_rows<T, channels>(dk, dk_sums, n, row, g, D);
  if constexpr (wants_dv) store_rows<T, channels>(dv, dv_sums, n, row, g, D);
}

Grid grid_of(int64_t heads, int64_t rows) {
  return {dim3(static_cast<unsigned>(heads * ceil_div<int64_t>(rows, fragment_rows))),
          fragment_threads};
}

// Calls f<channels>().
template <class F>
void with_channels(int64_t D, F&& f) {
  if (D <= 64) f.template operator()<64>();
  else f.template operator()<128>();
}
// Calls f<is_masked>(): a key mask takes registers that the other kernels do not have.
template <class F>
void with_mask(const CausalInputs& in, F&& f) {
  if (in.key_mask.data) f.template operator()<true>();
  else f.template operator()<false>();
}

bool is_aligned(const HeadColumns& x) {
  if (!x.rows.data) return true;
  constexpr int64_t bytes = 2 * vector_elements;
  return x.first % vector_elements == 0 && x.rows.shape[-1] % vector_elements == 0 &&
         reinterpret_cast<uintptr_t>(x.rows.data) % bytes == 0;
}

}  // namespace

bool is_for_tensor_cores(const CausalInputs& in, std::initializer_list<HeadColumns> others) {
  const CausalSizes s(in);
  return suits_tensor_cores(s, in.q.rows.dtype) && is_aligned(in.q) && is_aligned(in.k) &&
         is_aligned(in.v) && std::all_of(others.begin(), others.end(), is_aligned) &&
         context().properties().major >= 8;
}

template <class T>
void attend_on_tensor_cores(View y, View L, const CausalInputs& in) {
  const CausalSizes s(in);
  with_channels(s.D, [&]<int channels>() {
    constexpr int columns = channels == 64 ? 64 : 32;  // as many as fit
    with_mask(in, [&]<bool is_masked>() {
      enqueue(grid_of(s.N * s.H, s.Tq), attend_fragments_kernel<T, columns, channels, is_masked>,
              Target<T>(y, s.D), L.as<float>(), Operands<T>(in), s, static_cast<float>(s.scale()));
    });
  });
}

// The registers of a lane hold 64 channels of both dk and dv, or 128 of one.
template <class T>
void differentiate_on_tensor_cores(const CausalTargets& targets, View dy, View L, float* scratch,
                                   const CausalInputs& in) {
  static_assert(HeadParts::key_rows == fragment_rows);
  const CausalSizes s(in);
  const Operands<T> operands(in);
  const OutputGradient<T> out{HeadColumns{dy}.of<const T>(s.D), L.as<const float>(), scratch};
  const float scale = static_cast<float>(s.scale());
  const Target<T> dq(targets.dq, s.D), dk(targets.dk, s.D), dv(targets.dv, s.D);
  with_channels(s.D, [&]<int channels>() {
    constexpr int columns = 32;
    const auto of_keys = [&](auto kernel) {
      Grid grid = grid_of(s.N * s.G, s.T);
      grid.blocks.y = static_cast<unsigned>(HeadParts(s, dtype_of<T>()).count);
      enqueue(grid, kernel, dk, dv, scratch + s.output_products(), out, operands, s, scale);
    };
    if (targets.dq)
      with_mask(in, [&]<bool is_masked>() {
        enqueue(grid_of(s.N * s.H, s.Tq),
                query_gradient_fragments_kernel<T, columns, channels, is_masked>, dq, out, operands,
                s, scale);
      });
    if (channels == 64 && targets.dk && targets.dv) {
      of_keys(key_gradients_fragments_kernel<T, columns, 64, true, true>);
      return;
    }
    if (targets.dk) of_keys(key_gradients_fragments_kernel<T, columns, channels, true, false>);
    if (targets.dv) of_keys(key_gradients_fragments_kernel<T, columns, channels, false, true>);
  });
}

template void attend_on_tensor_cores<Half>(View, View, const CausalInputs&);
template void attend_on_tensor_cores<BFloat16>(View, View, const CausalInputs&);
template void differentiate_on_tensor_cores<Half>(const CausalTargets&, View, View, float*,
                                                  const CausalInputs&);
template void differentiate_on_tensor_cores<BFloat16>(const CausalTargets&, View, View, float*,
                                                      const CausalInputs&);

}  // namespace accrue::cuda
