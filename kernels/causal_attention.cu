#include <limits>

#include "kernels/detail/attention_tiles.cuh"
#include "kernels/detail/self_attention_kernels.h"
#include "kernels/detail/tensor_core_attention.h"

namespace accrue::cuda {
namespace {

// The keys that the queries of a thread see, in a tile of queries from `row` on.
template <class T>
struct SeenKeys {
  int first[thread_rows];  // the first key that each query sees
  int token;               // of the tile's first query, or all keys
  int begin, end;          // the keys that any of the block's queries sees
  const T* mask;           // of the keys, or null

  __device__ SeenKeys(const Operands<T>& in, int n, int row, const CausalSizes& s)
      : token(static_cast<int>(s.is_causal ? s.token(row) : s.T)), mask(in.mask_from(n, 0, s)) {
    for (int m = 0; m < thread_rows; ++m) first[m] = in.first_key(n, row + tile_row(m), s);
    const int least = in.first_key_of(tile_size, n, row, s), Tq = static_cast<int>(s.Tq);
    begin = least < 0 ? 0 : least;
    end = in.end_of_keys(n, (row + tile_size < Tq ? row + tile_size : Tq) - 1, s);
  }
  __device__ bool has(int m, int key) const {
    return first[m] <= key && key < end && key <= token + tile_row(m) && is_unmasked(mask, key);
  }
};

// Writes a row's sums for the channels of this block.
template <class T>
__device__ void store_row(const Target<T>& target, const Wide<T> (&sums)[thread_channels],
                          int64_t n, int64_t row, int64_t h, int64_t D) {
  for (int k = 0; k < thread_channels; ++k) {
    const int64_t d = first_channel() + tile_lane() + k * tile_size;
    if (d >= D) return;
    T& out = target.to.at(n, row, h)[d];
    if (target.beta == 0) out = T(sums[k]);
    else out = T(out + sums[k]);
  }
}

// y and L of 32 queries. Every lane of a warp keeps, for each of the warp's rows, the largest score
// and the sum so far.
template <class T, class W = Wide<T>>
__global__ void __launch_bounds__(block_threads)
    attend_kernel(Target<T> y, W* L, Operands<T> in, CausalSizes s, W scale) {
  using Products = Tiles<T>;
  alignas(32) __shared__ typename Products::Shared shared;
  const auto [n, h, row] = Place(s.Tq, s.H, tile_size);
  const int64_t g = h / s.heads_of_group();
  const HeadRows<T> queries(in.q, n, row, h);
  const SeenKeys<T> seen(in, n, row, s);
  typename Products::Sums sums;
  TileElements<W> largest, exponentials = {}, before;
  for (W& most : largest) most = std::numeric_limits<W>::lowest();
  for (int key = seen.begin; key < seen.end; key += tile_size) {
    TileElements<W> a;
    Products::multiply(a, queries, HeadRows<T>(in.k, n, key, g), s.D, shared);
    for (int m = 0; m < thread_rows; ++m) {
      const bool sees = seen.has(m, key + tile_lane());
      const W score = sees ? scale * a[m] : std::numeric_limits<W>::lowest();
      const W most = warp_max(score), next = most > largest[m] ? most : largest[m];
      before[m] = std::exp(largest[m] - next);
      a[m] = sees ? std::exp(score - next) : W(0);
      exponentials[m] = exponentials[m] * before[m] + warp_sum(a[m]);
      largest[m] = next;
    }
    sums.scale(before, shared);
    sums.add(a, HeadRows<T>(in.v, n, key, g), s.E, shared,
             [&](int m) { return seen.has(m, key + tile_lane()); });
  }
  RowElements<W> rows;
  sums.take(rows, shared);
  for (int m = 0; m < thread_rows; ++m) {
    const int64_t i = row + tile_row(m);
    if (i >= s.Tq) return;
    if (seen.first[m] < 0) exponentials[m] = std::numeric_limits<W>::quiet_NaN();
    finish_softmax(in, exponentials[m], largest[m]);
    for (W& sum : rows[m]) sum /= exponentials[m];
    store_row(y, rows[m], n, i, h, s.E);
    if (tile_lane() == 0 && blockIdx.y == 0)
      L[(n * s.H + h) * s.Tq + i] = largest[m] + std::log(exponentials[m]);
  }
}

// t[n, h, i] = sum_e dy[n, i, h, e] * y[n, i, h, e]. A warp takes one head of a query, and its
// lanes share the channels.
template <class T, class W = Wide<T>>
__global__ void __launch_bounds__(block_threads)
    output_products_kernel(W* t, Heads<const T> dy, Heads<const T> y, CausalSizes s) {
  const int lane = threadIdx.x % warp_threads;
  for (int64_t at = first_item() / warp_threads; at < s.N * s.H * s.Tq;
       at += item_stride() / warp_threads) {
    const int64_t i = at % s.Tq, h = at / s.Tq % s.H, n = at / s.Tq / s.H;
    const T *dy_row = dy.at(n, i, h), *y_row = y.at(n, i, h);
    W sum = 0;
    for (int64_t e = lane; e < s.E; e += warp_threads) sum += dy_row[e] * y_row[e];
    sum = warp_sum(sum);
    if (lane == 0) t[at] = sum;
  }
}

// dq of 32 queries.
template <class T, class W = Wide<T>>
__global__ void __launch_bounds__(block_threads, 2)
    query_gradient_kernel(Target<T> dq, OutputGradient<T> out, Operands<T> in, CausalSizes s,
                          W scale) {
  using Products = Tiles<T>;
  alignas(32) __shared__ typename Products::Shared shared;
  const auto [n, h, row] = Place(s.Tq, s.H, tile_size);
  const int64_t g = h / s.heads_of_group(), head = (n * s.H + h) * s.Tq;
  const HeadRows<T> queries(in.q, n, row, h), dys(out.dy, n, row, h);
  const SeenKeys<T> seen(in, n, row, s);
  typename Products::Sums sums;
  for (int key = seen.begin; key < seen.end; key += tile_size) {
    const HeadRows<T> keys(in.k, n, key, g);
    TileElements<W> ds, da;
    Products::multiply(ds, queries, keys, s.D, shared);
    Products::multiply(da, dys, HeadRows<T>(in.v, n, key, g), s.E, shared);
    for (int m = 0; m < thread_rows; ++m) {
      const int64_t i = head + row + tile_row(m);
      ds[m] = seen.has(m, key + tile_lane())
                  ? score_gradient(std::exp(scale * ds[m] - out.L[i]), da[m], out.t[i], scale)
                  : W(0);
    }
    sums.add(ds, keys, s.D, shared, [&](int m) { return seen.has(m, key + tile_lane()); });
  }
  RowElements<W> rows;
  sums.take(rows, shared);
  for (int m = 0; m < thread_rows; ++m)
    if (row + tile_row(m) < s.Tq) store_row(dq, rows[m], n, row + tile_row(m), h, s.D);
}

// dk and dv of 32 keys. Here rows are keys, and columns are the queries of all heads of the group,
// head by head. A thread stores dk before dv.
template <class T, class W = Wide<T>>
__global__ void __launch_bounds__(block_threads)
    key_gradients_kernel(Target<T> dk, Target<T> dv, OutputGradient<T> out, Operands<T> in,
                         CausalSizes s, W scale) {
  using Products = Tiles<T>;
  alignas(32) __shared__ typename Products::Shared shared;
  const auto [n, g, row] = Place(s.T, s.G, tile_size);
  const HeadRows<T> keys(in.k, n, row, g), values(in.v, n, row, g);
  typename Products::Sums dk_sums, dv_sums;
  const T* const mask = in.mask_from(n, row, s);
  // The first query that sees the first key.
  const int first = s.is_causal && row > s.T - s.Tq ? row - static_cast<int>(s.T - s.Tq) : 0;
  for (int64_t h = g * s.heads_of_group(); h < (g + 1) * s.heads_of_group(); ++h)
    for (int query = first; query < s.Tq; query += tile_size) {
      if (in.first_key_of(tile_size, n, query, s) >= row + tile_size) continue;
      const int i = query + tile_lane();
      const int64_t head = (n * s.H + h) * s.Tq;
      const int first_key = in.first_key(n, i, s), end = in.end_of_keys(n, i, s);
      const auto is_seen = [&](int m) {
        const int j = row + tile_row(m);
        return first_key <= j && j < end && is_unmasked(mask, tile_row(m));
      };
      const HeadRows<T> queries(in.q, n, query, h), dys(out.dy, n, query, h);
      TileElements<W> a, ds;
      Products::multiply(a, keys, queries, s.D, shared);
      for (int m = 0; m < thread_rows; ++m)
        a[m] = is_seen(m) ? std::exp(scale * a[m] - out.L[head + i]) : W(0);
      if (dv.to.data) dv_sums.add(a, dys, s.E, shared, is_seen);
      if (!dk.to.data) continue;
      Products::multiply(ds, values, dys, s.E, shared);
      for (int m = 0; m < thread_rows; ++m)
        ds[m] = is_seen(m) ? score_gradient(a[m], ds[m], out.t[head + i], scale) : W(0);
      dk_sums.add(ds, queries, s.D, shared, is_seen);
    }
  const auto store = [&](const Target<T>& target, const typename Products::Sums& sums, int64_t D) {
    RowElements<W> rows;
    sums.take(rows, shared);
    for (int m = 0; m < thread_rows; ++m)
      if (row + tile_row(m) < s.T) store_row(target, rows[m], n, row + tile_row(m), g, D);
  };
  if (dk.to.data) store(dk, dk_sums, s.D);
  if (dv.to.data) store(dv, dv_sums, s.E);
}

Grid grid_of(int64_t heads, int64_t rows, int64_t channels) {
  return {dim3(static_cast<unsigned>(heads * ceil_div<int64_t>(rows, tile_size)),
               static_cast<unsigned>(ceil_div<int64_t>(channels, block_channels)))};
}

void attend_in_tiles(View y, View L, const CausalInputs& in) {
  dispatch_floating(
      y.dtype, [&]<class T, class W = Wide<T>>() {
        if constexpr (is_16_bit<T>)
          if (is_for_tensor_cores(in, {{y}})) return attend_on_tensor_cores<T>(y, L, in);
        const CausalSizes s(in);
        enqueue(grid_of(s.N * s.H, s.Tq, s.E), attend_kernel<T>, Target<T>(y, s.E), L.as<W>(),
                Operands<T>(in), s, static_cast<W>(s.scale()));
      });
}

// A separate kernel for dq computes the tiles again, so that no sum of dq runs over several blocks.
// Where the targets are one buffer, dq is stored before dk is added, and dk before dv.
void differentiate_in_tiles(const CausalTargets& targets, View dy, View y, View L,
                            const CausalInputs& in, View scratch) {
  dispatch_floating(
      y.dtype, [&]<class T, class W = Wide<T>>() {
        const CausalSizes s(in);
        const Operands<T> operands(in);
        W* t = static_cast<W*>(scratch.data);
        const OutputGradient<T> out{HeadColumns{dy}.of<const T>(s.E), L.as<const W>(), t};
        const W scale = static_cast<W>(s.scale());
        if (targets.dq || targets.dk)
          enqueue(grid_over(s.N * s.H * s.Tq * warp_threads), output_products_kernel<T>, t, out.dy,
                  HeadColumns{y}.of<const T>(s.E), s);
        if constexpr (is_16_bit<T>)
          if (is_for_tensor_cores(
                  in, {{dy}, targets.dq.columns(), targets.dk.columns(), targets.dv.columns()}))
            return differentiate_on_tensor_cores<T>(targets, dy, L, t, in);
        if (targets.dq)
          enqueue(grid_of(s.N * s.H, s.Tq, s.D), query_gradient_kernel<T>,
                  Target<T>(targets.dq, s.D), out, operands, s, scale);
        if (targets.dk || targets.dv)
          enqueue(grid_of(s.N * s.G, s.T, std::max(s.D, s.E)), key_gradients_kernel<T>,
                  Target<T>(targets.dk, s.D), Target<T>(targets.dv, s.E), out, operands, s, scale);
      });
}

}  // namespace

void causal_attention(View y, View L, CausalInputs in, View) { attend_in_tiles(y, L, in); }
void causal_attention_backward(CausalTargets targets, View dy, View y, View L, CausalInputs in,
                               View scratch) {
  differentiate_in_tiles(targets, dy, y, L, in, scratch);
}
void attention(View y, View L, CausalInputs in, View) { attend_in_tiles(y, L, in); }
void attention_backward(CausalTargets targets, View dy, View y, View L, CausalInputs in,
                        View scratch) {
  differentiate_in_tiles(targets, dy, y, L, in, scratch);
}

}  // namespace accrue::cuda
