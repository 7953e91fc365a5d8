#include "kernels/causal_attention.h"

#include <utility>

#include "kernels/cpu/attention_blocks.h"
#include "kernels/cpu/bump_allocator.h"
#include "kernels/cpu/indirect_gemm.h"
#include "kernels/detail/causal_attention_kernels.h"
#include "kernels/detail/self_attention_kernels.h"
#include "kernels/detail/vector_exp.h"

namespace accrue {
namespace cpu {
namespace {

// How the work is cut, and what a slot of the scratch holds, in elements.
template <class W>
struct CausalTiling : CausalSizes {
  Partition vectors;  // of queries
  int64_t columns, keys, width;

  explicit CausalTiling(const CausalSizes& s)
      : CausalSizes(s),
        vectors(ceil_div(s.Tq, lanes<W>), most_vectors),
        columns(vectors.size(0) * lanes<W>),
        keys(std::max(std::min(most_keys, s.T), columns)),
        width(round_up(s.D, lanes<W>)) {}

  int64_t blocks() const { return N * H * vectors.parts; }

  // As many as q, k and v have room for, so that scratch is small beside them.
  int64_t slots(int64_t chunks, int64_t slot_elements) const {
    constexpr int64_t least = 2, most = 16;
    const int64_t fitting = static_cast<int64_t>(elements()) / slot_elements;
    return std::min(chunks, std::clamp(fitting, least, most));
  }

 private:
  static constexpr int64_t most_vectors = 2 * block_vectors;
};

// A block of queries, and of keys that they see, in the forward.
template <class T, class W = Wide<T>>
struct ForwardScratch {
  W *q, *k, *v, *queries, *scores, *y, *largest, *next, *sums;
  int32_t* starts;
  size_t bytes;

  ForwardScratch(const CausalTiling<W>& t, void* base) {
    BumpAllocator allocator(base);
    const int64_t copied = needs_copy<T>(t.D) ? t.width : 0;
    q = allocator.take<W>(t.columns * copied);
    k = allocator.take<W>(t.keys * copied);
    v = allocator.take<W>(t.keys * copied);
    queries = allocator.take<W>(t.D * t.columns);
    scores = allocator.take<W>(t.keys * t.columns);
    y = allocator.take<W>(t.columns * t.width);
    largest = allocator.take<W>(t.columns);
    next = allocator.take<W>(t.columns);
    sums = allocator.take<W>(t.columns);
    starts = allocator.take<int32_t>(t.columns);
    bytes = allocator.used();
  }
};

template <class T, class W = Wide<T>>
struct BackwardScratch {
  W *q, *k, *v, *dy, *queries, *dys, *a, *ds, *dq, *L, *t;
  int32_t* starts;
  size_t bytes;

  BackwardScratch(const CausalTiling<W>& t, void* base) {
    BumpAllocator allocator(base);
    const int64_t copied = needs_copy<T>(t.D) ? t.width : 0;
    q = allocator.take<W>(t.columns * copied);
    k = allocator.take<W>(t.keys * copied);
    v = allocator.take<W>(t.keys * copied);
    dy = allocator.take<W>(t.columns * copied);
    queries = allocator.take<W>(t.D * t.columns);
    dys = allocator.take<W>(t.D * t.columns);
    a = allocator.take<W>(t.keys * t.columns);
    ds = allocator.take<W>(t.keys * t.columns);
    dq = allocator.take<W>(t.columns * t.width);
    L = allocator.take<W>(t.columns);
    this->t = allocator.take<W>(t.columns);
    starts = allocator.take<int32_t>(t.columns);
    bytes = allocator.used();
  }
};

void check_positions(View positions, const CausalSizes& s) {
  const auto* at = positions.as<const int32_t>();
  for (int64_t n = 0; n < s.N; ++n)
    for (int64_t i = 0; i < s.Tq; ++i, ++at)
      check(0 <= *at && *at <= s.token(i),
            "[causal_attention] position {} of query {} in row {}: expected 0 to {}, the tokens "
            "before it",
            *at, i, n, s.token(i));
}

// Block `index` of the queries of head h in row n. starts is scratch.
template <class W>
QueryBlock query_block(const CausalTiling<W>& t, int64_t n, int64_t h, int64_t index,
                       View positions, int32_t* starts) {
  const int64_t first = t.vectors.begin(index) * lanes<W>,
                columns = t.vectors.size(index) * lanes<W>;
  QueryBlock q{n, h, first, std::min(columns, t.Tq - first), columns, t.token(first)};
  if (!positions.data) return q;
  const int32_t* at = positions.as<const int32_t>() + n * t.Tq + first;
  for (int64_t i = 0; i < q.rows; ++i) starts[i] = static_cast<int32_t>(q.token + i) - at[i];
  std::fill(starts + q.rows, starts + columns, starts[0]);
  const auto [least, most] = std::minmax_element(starts, starts + columns);
  q.starts = starts;
  q.earliest = *least;
  q.latest = *most;
  return q;
}

// The largest scores so far, and the sums of the exponentials relative to them.
template <class W>
struct RunningSoftmax {
  W *largest, *next, *sums, scale;
};

// Scores become exponentials relative to the largest so far, and what was added up before in y and
// the sums is made relative to it, too.
template <class W>
void exponentiate(Matrix<W> scores, Matrix<W> y, const ScoreBlock& b, int64_t width,
                  const RunningSoftmax<W>& s) {
  std::copy_n(s.largest, b.columns, s.next);
  for (int64_t r = 0; r < b.keys; ++r) {
    const W* row = scores.data + r * scores.stride;
#pragma omp simd
    for (int64_t i = first_column<W>(b, r); i < b.columns; ++i)
      s.next[i] = std::max(s.next[i], row[i]);
  }
#pragma omp simd
  for (int64_t i = 0; i < b.columns; ++i) {
    const W factor = vector_exp(s.scale * (s.largest[i] - s.next[i]));
    s.largest[i] = s.next[i];
    s.sums[i] *= factor;
    s.next[i] = factor;
  }
  for (int64_t i = 0; i < b.queries; ++i)
    if (s.next[i] != 1)
      for (int64_t d = 0; d < width; ++d) y.data[i * y.stride + d] *= s.next[i];
  for (int64_t r = 0; r < b.keys; ++r) {
    W* row = scores.data + r * scores.stride;
#pragma omp simd
    for (int64_t i = first_column<W>(b, r); i < b.columns; ++i) {
      row[i] = vector_exp(s.scale * (row[i] - s.largest[i]));
      s.sums[i] += row[i];
    }
  }
}

template <class T>
Matrix<const T> rows_from(const Heads<const T>& x, int64_t n, int64_t t, int64_t h) {
  return {x.at(n, t, h), x.stride};
}

template <class T, class W = Wide<T>>
struct CausalForward {
  CausalTiling<W> t;
  Heads<const T> q, k, v;
  Heads<T> y;
  W* L;

  CausalForward(View y, View L, const CausalInputs& in)
      : t(CausalSizes(in)),
        q(in.q.of<const T>(t.D)),
        k(in.k.of<const T>(t.D)),
        v(in.v.of<const T>(t.D)),
        y(HeadColumns{y}.of<T>(t.D)),
        L(L.as<W>()) {}

  void attend(const QueryBlock& block, const ForwardScratch<T>& x) const {
    const int64_t n = block.n, h = block.h, first = block.first, rows = block.rows,
                  columns = block.columns;
    const int64_t g = h / t.heads_of_group();
    const auto queries = rows_of<T>(x.q, rows_from(q, n, first, h), rows, t.D);
    transpose(x.queries, columns, queries.data, queries.stride, rows, t.D);
    const Matrix<W> scores{x.scores, columns}, sums{x.y, t.width};
    const RunningSoftmax<W> softmax{x.largest, x.next, x.sums, static_cast<W>(t.scale())};
    std::fill_n(x.largest, columns, std::numeric_limits<W>::lowest());
    std::fill_n(x.sums, columns, W(0));
    std::fill_n(x.y, rows * t.width, W(0));
    for_each_block(block, [&](const ScoreBlock& b) {
      const auto keys = rows_of<T>(x.k, rows_from(k, n, b.key, g), b.keys, t.D);
      multiply_heads(scores, b, keys, {x.queries, columns}, t.D);
      hide_unseen(scores, b, block);
      exponentiate(scores, sums, b, t.width, softmax);
      const auto values = rows_of<T>(x.v, rows_from(v, n, b.key, g), b.keys, t.D);
      add_over_keys(sums, b, {x.scores, columns}, values, t.width);
    });
    for (int64_t i = 0; i < rows; ++i) {
      L[(n * t.H + h) * t.Tq + first + i] = softmax.scale * x.largest[i] + std::log(x.sums[i]);
      T* out = y.at(n, first + i, h);
      for (int64_t d = 0; d < t.D; ++d) out[d] = T(x.y[i * t.width + d] / x.sums[i]);
    }
  }
};

// How backward is cut. A chunk has a group of a row; where there are few of them each is cut into
// parts, which take turns at its blocks of queries, and their sums are added up in the end.
template <class T, class W = Wide<T>>
struct BackwardTiling : CausalTiling<W> {
  int64_t blocks_of_group, parts, chunks, slot_count, sums_count, slot_bytes, sums;

  explicit BackwardTiling(const CausalSizes& s) : CausalTiling<W>(s) {
    constexpr int64_t wanted = 12, least_products = 1 << 20;
    const int64_t groups = s.N * s.G;
    const auto products = static_cast<int64_t>(5 * s.pairs() * double(s.D));
    blocks_of_group = s.heads_of_group() * this->vectors.parts;
    parts = std::clamp<int64_t>(
        std::min(ceil_div(wanted, groups), products / groups / least_products), 1, blocks_of_group);
    chunks = groups * parts;
    slot_bytes = static_cast<int64_t>(BackwardScratch<T>(*this, nullptr).bytes);
    sums = s.T * this->width;
    slot_count = this->slots(chunks, slot_bytes / int64_t{sizeof(W)} + 2 * sums);
    sums_count = parts == 1 ? slot_count : chunks;
  }
  size_t bytes() const {
    return static_cast<size_t>(slot_count * slot_bytes +
                               sums_count * 2 * sums * int64_t{sizeof(W)});
  }
  BackwardScratch<T> slot(View scratch, int64_t slot) const {
    return {*this, static_cast<std::byte*>(scratch.data) + slot * slot_bytes};
  }
  // dk [T, width] of a chunk, and then its dv.
  W* sums_of(View scratch, int64_t chunk, int64_t slot) const {
    std::byte* all = static_cast<std::byte*>(scratch.data) + slot_count * slot_bytes;
    return reinterpret_cast<W*>(all) + (parts == 1 ? slot : chunk) * 2 * sums;
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
        v(in.v.of<const T>(t.D)),
        y(HeadColumns{y}.of<const T>(t.D)),
        dy(HeadColumns{dy}.of<const T>(t.D)),
        L(L.as<const W>()) {}

  // Adds to the sums what the queries give, and stores their dq.
  void differentiate(const QueryBlock& block, const BackwardScratch<T>& x, W* sums) const {
    const int64_t n = block.n, h = block.h, first = block.first, rows = block.rows,
                  columns = block.columns;
    const int64_t g = h / t.heads_of_group();
    const auto queries = rows_of<T>(x.q, rows_from(q, n, first, h), rows, t.D);
    const auto dys = rows_of<T>(x.dy, rows_from(dy, n, first, h), rows, t.D);
    transpose(x.queries, columns, queries.data, queries.stride, rows, t.D);
    transpose(x.dys, columns, dys.data, dys.stride, rows, t.D);
    take_sums(block, x);
    const Matrix<W> a{x.a, columns}, ds{x.ds, columns}, dq{x.dq, t.width};
    const Matrix<const W> a_in{x.a, columns}, ds_in{x.ds, columns};
    std::fill_n(x.dq, rows * t.width, W(0));
    for_each_block(block, [&](const ScoreBlock& b) {
      const auto keys = rows_of<T>(x.k, rows_from(k, n, b.key, g), b.keys, t.D);
      multiply_heads(a, b, keys, {x.queries, columns}, t.D);
      hide_unseen(a, b, block);
      recompute(a, b, x.L);
      W* dk = sums + b.key * t.width;
      if (targets.dv) add_over_queries({dk + t.sums, t.width}, b, a_in, dys, t.width);
      if (!targets.dk && !targets.dq) return;
      const auto values = rows_of<T>(x.v, rows_from(v, n, b.key, g), b.keys, t.D);
      multiply_heads(ds, b, values, {x.dys, columns}, t.D);
      differentiate_scores(ds, a_in, b, x.t);
      if (targets.dk) add_over_queries({dk, t.width}, b, ds_in, queries, t.width);
      if (targets.dq) add_over_keys(dq, b, ds_in, keys, t.width);
    });
    if (targets.dq) store_rows(targets.dq, {n, h, first, first + rows}, x.dq, 1);
  }

  // dk and dv of a group for its rows [begin, end), which all parts have added to.
  void store_group(int64_t group, int64_t begin, int64_t end, const W* sums) const {
    const HeadRows rows{group / t.G, group % t.G, begin, end};
    if (targets.dk) store_rows(targets.dk, rows, sums + begin * t.width, t.parts);
    if (targets.dv) store_rows(targets.dv, rows, sums + t.sums + begin * t.width, t.parts);
  }

 private:
  // L and t of the queries, and something harmless where there are none.
  void take_sums(const QueryBlock& block, const BackwardScratch<T>& x) const {
    std::fill_n(x.L, block.columns, W(0));
    std::fill_n(x.t, block.columns, W(0));
    std::copy_n(L + (block.n * t.H + block.h) * t.Tq + block.first, block.rows, x.L);
    for (int64_t i = 0; i < block.rows; ++i) {
      const T *y_i = y.at(block.n, block.first + i, block.h),
              *dy_i = dy.at(block.n, block.first + i, block.h);
      W sum = 0;
#pragma omp simd reduction(+ : sum)
      for (int64_t d = 0; d < t.D; ++d) sum += dy_i[d] * y_i[d];
      x.t[i] = sum;
    }
  }

  // Scores become probabilities.
  void recompute(Matrix<W> a, const ScoreBlock& b, const W* log_sums) const {
    const W scale = static_cast<W>(t.scale());
    for (int64_t r = 0; r < b.keys; ++r) {
      W* row = a.data + r * a.stride;
#pragma omp simd
      for (int64_t i = first_column<W>(b, r); i < b.columns; ++i)
        row[i] = vector_exp(scale * row[i] - log_sums[i]);
    }
  }

  // Gradients of probabilities become gradients of scores.
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
  // out = x + beta * out, x [rows, width] added up over parts.
  void store_rows(const HeadTarget& out, const HeadRows& rows, const W* x, int64_t parts) const {
    const Heads<T> to = out.of<T>(t.D);
    with_beta(out.target->beta, [&](auto accumulate) {
      for (int64_t r = rows.begin; r < rows.end; ++r, x += t.width)
        for (int64_t d = 0; d < t.D; ++d) {
          W sum = x[d];
          for (int64_t part = 1; part < parts; ++part) sum += x[part * 2 * t.sums + d];
          store(to.at(rows.n, r, rows.h)[d], sum, accumulate);
        }
    });
  }
};

}  // namespace

void causal_attention(View y, View L, CausalInputs in, View scratch) {
  dispatch_floating(
      y.dtype, [&]<class T, class W = Wide<T>>() {
        const CausalForward<T> forward(y, L, in);
        const CausalTiling<W>& t = forward.t;
        if (in.positions.data) check_positions(in.positions, t);
        const auto slot_bytes = static_cast<int64_t>(ForwardScratch<T>(t, nullptr).bytes);
        const int64_t blocks = t.vectors.parts,
                      slots = t.slots(t.blocks(), slot_bytes / int64_t{sizeof(W)});
        parallel_chunks(t.blocks(), static_cast<int>(slots), [&](int64_t chunk, int slot) {
          const ForwardScratch<T> x(t, static_cast<std::byte*>(scratch.data) + slot * slot_bytes);
          const int64_t head = chunk / blocks;
          forward.attend(
              query_block(t, head / t.H, head % t.H, chunk % blocks, in.positions, x.starts), x);
        });
      });
}

// Where the targets are one buffer, dq is stored before dk is added, and dk before dv.
void causal_attention_backward(CausalTargets targets, View dy, View y, View L, CausalInputs in,
                               View scratch) {
  dispatch_floating(
      y.dtype, [&]<class T, class W = Wide<T>>() {
        const CausalBackward<T> backward(targets, dy, y, L, in);
        const BackwardTiling<T>& t = backward.t;
        parallel_chunks(t.chunks, static_cast<int>(t.slot_count), [&](int64_t chunk, int slot) {
          const BackwardScratch<T> x = t.slot(scratch, slot);
          W* const sums = t.sums_of(scratch, chunk, slot);
          const int64_t group = chunk / t.parts, blocks = t.vectors.parts;
          std::fill_n(sums, 2 * t.sums, W(0));
          for (int64_t i = chunk % t.parts; i < t.blocks_of_group; i += t.parts) {
            const int64_t h = group % t.G * t.heads_of_group() + i / blocks;
            backward.differentiate(
                query_block(t, group / t.G, h, i % blocks, in.positions, x.starts), x, sums);
          }
          if (t.parts == 1) backward.store_group(group, 0, t.T, sums);
        });
        if (t.parts == 1) return;
        for (int64_t group = 0; group < t.N * t.G; ++group)
          parallel_for(t.T, 2 * t.parts * t.D, [&](int64_t begin, int64_t end) {
            backward.store_group(group, begin, end, t.sums_of(scratch, group * t.parts, 0));
          });
      });
}

}  // namespace cpu

// Two products in the forward; up to five in backward, of which one is the forward's again.
template <>
struct WorkOf<cpu::causal_attention> {
  Work operator()(const View& y, const View& L, const CausalInputs& in, const View&) const {
    const CausalSizes s(in);
    Work work = work_of(4 * s.pairs() * double(s.D), y, L, in.positions);
    work.bytes += y.data ? s.elements() * double(size_of(y.dtype)) : 0;
    return work;
  }
};

template <>
struct WorkOf<cpu::causal_attention_backward> {
  Work operator()(const CausalTargets& to, const View& dy, const View& y, const View& L,
                  const CausalInputs& in, const View&) const {
    const CausalSizes s(in);
    const int products =
        1 + (to.dv ? 1 : 0) + (to.dk || to.dq ? 1 : 0) + (to.dk ? 1 : 0) + (to.dq ? 1 : 0);
    Work work = work_of(2 * products * s.pairs() * double(s.D), dy, y, L, in.positions);
    if (!y.data) return work;
    const double queries = double(s.N * s.Tq * s.H * s.D), keys = double(s.N * s.T * s.G * s.D);
    const auto touched = [](const HeadTarget& x, double elements) {
      return x ? (x.target->beta == 0 ? elements : 2 * elements) : 0;
    };
    work.bytes +=
        (s.elements() + touched(to.dq, queries) + touched(to.dk, keys) + touched(to.dv, keys)) *
        double(size_of(y.dtype));
    return work;
  }
};

namespace cuda {
decltype(cpu::causal_attention) causal_attention;
decltype(cpu::causal_attention_backward) causal_attention_backward;
}  // namespace cuda

namespace {

size_t forward_scratch_bytes(const CausalSizes& s, DType dtype, Device device) {
  if (plans_for_cuda(device)) return 0;
  return dispatch_floating(
      dtype, [&]<class T, class W = Wide<T>>() {
        const cpu::CausalTiling<W> t(s);
        const size_t bytes = cpu::ForwardScratch<T>(t, nullptr).bytes;
        return bytes *
               static_cast<size_t>(t.slots(t.blocks(), static_cast<int64_t>(bytes / sizeof(W))));
      });
}

size_t backward_scratch_bytes(const CausalSizes& s, DType dtype, Device device) {
  return dispatch_floating(
      dtype, [&]<class T, class W = Wide<T>>() {
        return plans_for_cuda(device) ? static_cast<size_t>(s.N * s.H * s.Tq) * sizeof(W)
                                      : cpu::BackwardTiling<T>(s).bytes();
      });
}

Tensor workspace(size_t bytes, Device device) {
  return Tensor::empty({static_cast<int64_t>(bytes)}, DType::u8, device, Category::workspace);
}

struct Attended {
  Tensor y, L;
};

Attended attend(const CausalInputs& in) {
  const CausalSizes s(in);
  const View& q = in.q.rows;
  const Attended out{Tensor::empty({s.N, s.Tq, s.H * s.D}, q.dtype, q.device),
                     Tensor::empty({s.N, s.H, s.Tq}, wide(q.dtype), q.device)};
  launch<cpu::causal_attention, cuda::causal_attention>(
      q.device, out.y.view(), out.L.view(), in,
      workspace(forward_scratch_bytes(s, q.dtype, q.device), q.device).view());
  return out;
}

void differentiate(const CausalTargets& targets, const Tensor& dy, const Attended& out,
                   const CausalInputs& in) {
  const Device device = dy.device();
  launch<cpu::causal_attention_backward, cuda::causal_attention_backward>(
      device, targets, dy.view(), out.y.view(), out.L.view(), in,
      workspace(backward_scratch_bytes(CausalSizes(in), dy.dtype(), device), device).view());
}

View view_of(const Tensor& positions) { return positions.defined() ? positions.view() : View{}; }

void check_heads(const AttentionHeads& x) {
  check(x.queries > 0 && x.groups > 0 && x.size > 0 && x.queries % x.groups == 0,
        "[causal_attention] {} heads of queries in {} groups, of size {}: expected positive "
        "numbers, and as many heads in every group",
        x.queries, x.groups, x.size);
}

void check_positions_of(const Tensor& positions, const Tensor& q) {
  const Shape wanted{q.size(0), q.size(1)};
  check(!positions.defined() || (positions.dtype() == DType::i32 && positions.shape() == wanted &&
                                 positions.device() == q.device()),
        "[causal_attention] positions {} {}: expected i32 {} on {}, one for each query",
        name(positions.dtype()), positions.shape(), wanted, name(q.device()));
}

CausalInputs packed_inputs(const Tensor& qkv, const AttentionHeads& heads,
                           const Tensor& positions) {
  const int64_t H = heads.queries, G = heads.groups, D = heads.size;
  const View x = qkv.view();
  return {{x, 0}, {x, H * D}, {x, (H + G) * D}, view_of(positions), heads};
}

}  // namespace

Tensor causal_attention(const Tensor& qkv, const AttentionHeads& heads, const Tensor& positions) {
  check_same("causal_attention", {&qkv});
  check_heads(heads);
  const int64_t H = heads.queries, G = heads.groups, D = heads.size;
  check(qkv.shape().rank() == 3 && qkv.size(2) == (H + 2 * G) * D && qkv.numel() > 0,
        "[causal_attention] qkv {} of {} heads in {} groups, of size {}: expected [N, T, {}], not "
        "empty",
        qkv.shape(), H, G, D, (H + 2 * G) * D);
  check_positions_of(positions, qkv);
  Attended out = attend(packed_inputs(qkv, heads, positions));
  Tensor y = out.y;

  const Edge edge = qkv;
  record("causal_attention", y, {edge},
         [=, qkv = qkv.detach(), out = Attended{y.detach(), out.L}](Tensor& dy) {
           if (const auto to = claim_grad(edge))
             differentiate({{to, 0}, {to, H * D}, {to, (H + G) * D}}, dy, out,
                           packed_inputs(qkv, heads, positions));
         });
  return y;
}

Tensor causal_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                        const AttentionHeads& heads, const Tensor& positions) {
  check_same("causal_attention", {&q, &k, &v});
  check_heads(heads);
  const int64_t H = heads.queries, G = heads.groups, D = heads.size;
  check(
      q.shape().rank() == 3 && k.shape().rank() == 3 && q.size(0) == k.size(0) &&
          q.size(1) <= k.size(1) && q.size(2) == H * D && k.size(2) == G * D &&
          v.shape() == k.shape() && q.numel() > 0,
      "[causal_attention] q {}, k {} and v {}: expected q [N, Tq, {}] and k and v [N, T, {}] with "
      "Tq <= T, none empty",
      q.shape(), k.shape(), v.shape(), H * D, G * D);
  check_positions_of(positions, q);
  const auto inputs = [=](const Tensor& q, const Tensor& k, const Tensor& v) {
    return CausalInputs{{q.view()}, {k.view()}, {v.view()}, view_of(positions), heads};
  };
  Attended out = attend(inputs(q, k, v));
  Tensor y = out.y;

  const Edge dq_edge = q, dk_edge = k, dv_edge = v;
  record("causal_attention", y, {dq_edge, dk_edge, dv_edge},
         [=, q = q.detach(), k = k.detach(), v = v.detach(),
          out = Attended{y.detach(), out.L}](Tensor& dy) {
           const auto [dq, dk, dv] = claim_grads(dq_edge, dk_edge, dv_edge);
           differentiate({{dq}, {dk}, {dv}}, dy, out, inputs(q, k, v));
         });
  return y;
}

}  // namespace accrue
