#include "kernels/causal_attention.h"

#include "kernels/cpu/attention_backward.h"
#include "kernels/cpu/attention_forward.h"
#include "kernels/detail/copy_columns.h"

namespace accrue {
namespace cpu {
namespace {

void attend_in_blocks(View y, View L, const CausalInputs& in, View scratch) {
  dispatch_floating(
      y.dtype, [&]<class T, class W = Wide<T>>() {
        const CausalForward<T> forward(y, L, in);
        const CausalTiling<W>& t = forward.t;
        if (in.positions.data) check_positions(in.positions, t);
        if (in.lengths.data) check_lengths(in.lengths, t);
        const auto slot_bytes = static_cast<int64_t>(ForwardScratch<T>(t, nullptr).bytes);
        const int64_t blocks = t.vectors.parts,
                      slots = t.slots(t.blocks(), slot_bytes / int64_t{sizeof(W)});
        parallel_chunks(t.blocks(), static_cast<int>(slots), [&](int64_t chunk, int slot) {
          const ForwardScratch<T> x(t, static_cast<std::byte*>(scratch.data) + slot * slot_bytes);
          const int64_t head = chunk / blocks;
          forward.attend(query_block(t, head / t.H, head % t.H, chunk % blocks, in, x.starts), x);
        });
      });
}

// Where the targets are one buffer, dq is stored before dk is added, and dk before dv.
void differentiate_in_blocks(const CausalTargets& targets, View dy, View y, View L,
                             const CausalInputs& in, View scratch) {
  dispatch_floating(
      y.dtype, [&]<class T, class W = Wide<T>>() {
        const CausalBackward<T> backward(targets, dy, y, L, in);
        const BackwardTiling<T>& t = backward.t;
        parallel_chunks(t.chunks, static_cast<int>(t.slot_count), [&](int64_t chunk, int slot) {
          const BackwardScratch<T> x = t.slot(scratch, slot);
          W* const sums = t.sums_of(scratch, chunk, slot);
          const int64_t group = chunk / t.parts, blocks = t.vectors.parts;
          std::fill_n(sums, t.all_sums, W(0));
          for (int64_t i = chunk % t.parts; i < t.blocks_of_group; i += t.parts) {
            const int64_t h = i / blocks;
            // Each head begins with another block, because later blocks take longer.
            backward.differentiate(query_block(t, group / t.G, group % t.G * t.heads_of_group() + h,
                                               (i + h) % blocks, in, x.starts),
                                   x, sums);
          }
          if (t.parts == 1) backward.store_group(group, 0, t.T, sums);
        });
        if (t.parts == 1) return;
        for (int64_t group = 0; group < t.N * t.G; ++group)
          parallel_for(t.T, t.parts * (t.D + t.E), [&](int64_t begin, int64_t end) {
            backward.store_group(group, begin, end, t.sums_of(scratch, group * t.parts, 0));
          });
      });
}

}  // namespace

// The kernels of the two ops are the same, so that reports name the op.
void causal_attention(View y, View L, CausalInputs in, View scratch) {
  attend_in_blocks(y, L, in, scratch);
}
void causal_attention_backward(CausalTargets targets, View dy, View y, View L, CausalInputs in,
                               View scratch) {
  differentiate_in_blocks(targets, dy, y, L, in, scratch);
}
void attention(View y, View L, CausalInputs in, View scratch) {
  attend_in_blocks(y, L, in, scratch);
}
void attention_backward(CausalTargets targets, View dy, View y, View L, CausalInputs in,
                        View scratch) {
  differentiate_in_blocks(targets, dy, y, L, in, scratch);
}

}  // namespace cpu

// The forward has two products; backward has up to five, one of which the forward has, too.
template <>
struct detail::WorkOf<cpu::causal_attention> {
  Work operator()(const View& y, const View& L, const CausalInputs& in, const View&) const {
    const CausalSizes s(in);
    Work work = work_of(2 * s.pairs() * double(s.D + s.E), y, L, in.positions);
    work.bytes += y.data ? s.elements() * double(size_of(y.dtype)) : 0;
    return work;
  }
};

template <>
struct detail::WorkOf<cpu::causal_attention_backward> {
  Work operator()(const CausalTargets& to, const View& dy, const View& y, const View& L,
                  const CausalInputs& in, const View&) const {
    const CausalSizes s(in);
    const int64_t channels = (1 + (to.dk ? 1 : 0) + (to.dq ? 1 : 0)) * s.D +
                             ((to.dv ? 1 : 0) + (to.dk || to.dq ? 1 : 0)) * s.E;
    Work work = work_of(2 * s.pairs() * double(channels), dy, y, L, in.positions);
    if (!y.data) return work;
    const double queries = double(s.N * s.Tq * s.H * s.D), keys = double(s.N * s.T * s.G * s.D),
                 values = double(s.N * s.T * s.G * s.E);
    const auto touched = [](const HeadTarget& x, double elements) {
      return x ? (x.target->beta == 0 ? elements : 2 * elements) : 0;
    };
    work.bytes +=
        (s.elements() + touched(to.dq, queries) + touched(to.dk, keys) + touched(to.dv, values)) *
        double(size_of(y.dtype));
    return work;
  }
};

template <>
struct detail::WorkOf<cpu::attention> : detail::WorkOf<cpu::causal_attention> {};
template <>
struct detail::WorkOf<cpu::attention_backward> : detail::WorkOf<cpu::causal_attention_backward> {};

namespace cuda {
decltype(cpu::causal_attention) causal_attention, attention;
decltype(cpu::causal_attention_backward) causal_attention_backward, attention_backward;
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

size_t backward_scratch_bytes(const CausalSizes& s, const CausalTargets& targets, DType dtype,
                              Device device) {
  return dispatch_floating(
      dtype, [&]<class T, class W = Wide<T>>() {
        if (!plans_for_cuda(device)) return cpu::BackwardTiling<T>(s).bytes();
        const int64_t of_parts = targets.dk || targets.dv ? HeadParts(s, dtype).floats() : 0;
        return static_cast<size_t>(s.output_products() + of_parts) * sizeof(W);
      });
}

Tensor workspace(size_t bytes, Device device) {
  return Tensor::empty({static_cast<int64_t>(bytes)}, DType::u8, device, Category::workspace);
}

struct Attended {
  Tensor y, L;
};

template <auto CpuKernel = cpu::causal_attention, auto CudaKernel = cuda::causal_attention>
Attended attend(const CausalInputs& in) {
  const CausalSizes s(in);
  const View& q = in.q.rows;
  const Shape y = in.q.has_heads() ? Shape{s.N, s.H, s.Tq, s.E} : Shape{s.N, s.Tq, s.H * s.D};
  const Attended out{Tensor::empty(y, q.dtype, q.device),
                     Tensor::empty({s.N, s.H, s.Tq}, wide(q.dtype), q.device)};
  launch<CpuKernel, CudaKernel>(
      q.device, out.y.view(), out.L.view(), in,
      workspace(forward_scratch_bytes(s, q.dtype, q.device), q.device).view());
  return out;
}

template <auto CpuKernel = cpu::causal_attention_backward,
          auto CudaKernel = cuda::causal_attention_backward>
void differentiate(const CausalTargets& targets, const Tensor& dy, const Attended& out,
                   const CausalInputs& in) {
  const Device device = dy.device();
  launch<CpuKernel, CudaKernel>(
      device, targets, dy.view(), out.y.view(), out.L.view(), in,
      workspace(backward_scratch_bytes(CausalSizes(in), targets, dy.dtype(), device), device)
          .view());
}

// Records the op of three tensors, which inputs(q, k, v) describes to the kernels.
template <auto CpuForward, auto CudaForward, auto CpuBackward, auto CudaBackward, class Inputs>
Tensor attend_to(std::string_view op, const Tensor& q, const Tensor& k, const Tensor& v,
                 Inputs inputs) {
  Attended out = attend<CpuForward, CudaForward>(inputs(q, k, v));
  Tensor y = out.y;

  const Edge dq_edge = q, dk_edge = k, dv_edge = v;
  record(op, y, {dq_edge, dk_edge, dv_edge},
         [=, q = q.saved(), k = k.saved(), v = v.saved(),
          out = Attended{y.saved(), out.L}](Tensor& dy) {
           const auto [dq, dk, dv] = claim_grads(dq_edge, dk_edge, dv_edge);
           differentiate<CpuBackward, CudaBackward>({{dq}, {dk}, {dv}}, dy, out, inputs(q, k, v));
         });
  return y;
}

// Records the op of one tensor with q, k and v side by side, which inputs(qkv) describes to the
// kernels.
template <auto CpuForward, auto CudaForward, auto CpuBackward, auto CudaBackward, class Inputs>
Tensor attend_to_packed(std::string_view op, const Tensor& qkv, Inputs inputs) {
  Attended out = attend<CpuForward, CudaForward>(inputs(qkv));
  Tensor y = out.y;

  const Edge edge = qkv;
  record(op, y, {edge}, [=, qkv = qkv.saved(), out = Attended{y.saved(), out.L}](Tensor& dy) {
    const auto to = claim_grad(edge);
    if (!to) return;
    const CausalInputs in = inputs(qkv);
    differentiate<CpuBackward, CudaBackward>({{to, in.q.first}, {to, in.k.first}, {to, in.v.first}},
                                             dy, out, in);
  });
  return y;
}

View view_of(const Tensor& x) { return x.defined() ? x.view() : View{}; }

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

void check_separate(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionHeads& heads,
                    const Tensor& positions) {
  check_same("causal_attention", {&q, &k, &v});
  check_heads("causal_attention", heads);
  const int64_t H = heads.queries, G = heads.groups, D = heads.size;
  check(
      q.shape().rank() == 3 && k.shape().rank() == 3 && q.size(0) == k.size(0) &&
          q.size(1) <= k.size(1) && q.size(2) == H * D && k.size(2) == G * D &&
          v.shape() == k.shape() && q.numel() > 0,
      "[causal_attention] q {}, k {} and v {}: expected q [N, Tq, {}] and k and v [N, T, {}] with "
      "Tq <= T, none empty",
      q.shape(), k.shape(), v.shape(), H * D, G * D);
  check_positions_of(positions, q);
}

void check_packed(const Tensor& qkv, const AttentionHeads& heads, const Tensor& positions) {
  check_packed_heads("causal_attention", qkv, heads);
  check_positions_of(positions, qkv);
}

// Rows [begin, end) of x [1, T, columns].
Tensor rows_of_one(const Tensor& x, int64_t begin, int64_t end) {
  const int64_t columns = x.size(2);
  return x.reshape({x.size(1), columns}).slice(begin, end).reshape({1, end - begin, columns});
}

// The attention of a piece's queries to the tokens of its row, up to the end of the piece.
class PieceAttention {
 public:
  PieceAttention(const Tensor& q, const AttentionHeads& heads, const Tensor& positions,
                 const PieceOfRow& piece)
      : row_(piece.row),
        heads_(heads),
        positions_(positions),
        begin_(piece.begin),
        end_(piece.begin + q.size(1)) {
    check(q.size(0) == 1 && 0 <= begin_ && end_ <= row_->tokens,
          "[causal_attention] {} pieces of tokens {} to {}: expected one, of a row of {} tokens",
          q.size(0), begin_, end_, row_->tokens);
    if (row_->k.defined()) return;
    const MemoryScope scope("keys and values");
    for (Tensor* all : {&row_->k, &row_->v})
      *all = Tensor::empty({1, row_->tokens, width()}, q.dtype(), q.device());
  }

  Attended run(HeadColumns q, HeadColumns k, HeadColumns v) const {
    copy_into(row_->k, k);
    copy_into(row_->v, v);
    return attend(inputs(q));
  }

  // Computes dq, and adds the contribution of these queries to the row's dk and dv, where wanted.
  void differentiate_queries(const HeadTarget& dq, bool wants_dk, bool wants_dv, const Tensor& dy,
                             const Attended& out, HeadColumns q) const {
    const bool is_last = !row_->dk.defined() && !row_->dv.defined();
    check(
        is_last || row_->differentiated_from == end_,
        "[causal_attention] backward of tokens {} to {} of a row after the backward from token {} "
        "on: expected its pieces one after another, the last one first",
        begin_, end_, row_->differentiated_from);
    if (is_last) {
      const MemoryScope scope("gradients of keys and values");
      const Tensor& k = row_->k;
      if (wants_dk) row_->dk = Tensor::empty(k.shape(), k.dtype(), k.device());
      if (wants_dv) row_->dv = Tensor::empty(k.shape(), k.dtype(), k.device());
    }
    const auto target = [&](const Tensor& all) -> HeadTarget {
      if (!all.defined()) return {};
      return {GradTarget{rows_of_one(all, 0, end_).view(), is_last ? 0.0f : 1.0f}};
    };
    differentiate({dq, target(row_->dk), target(row_->dv)}, dy, out, inputs(q));
    row_->differentiated_from = begin_;
  }

  // Pass on the gradients of this piece's keys and values, to which no other piece will add.
  void hand_dk_on(const HeadTarget& to) const { hand_on(to, row_->dk); }
  void hand_dv_on(const HeadTarget& to) const { hand_on(to, row_->dv); }
  void finish() const {
    if (begin_ > 0) return;
    row_->dk.reset();
    row_->dv.reset();
  }

 private:
  int64_t width() const { return heads_.groups * heads_.size; }
  CausalInputs inputs(HeadColumns q) const {
    const auto seen = [this](const Tensor& all) {
      return HeadColumns{rows_of_one(all, 0, end_).view()};
    };
    return {q, seen(row_->k), seen(row_->v), view_of(positions_), heads_};
  }
  void copy_into(const Tensor& all, HeadColumns from) const {
    copy_columns({rows_of_one(all, begin_, end_).view(), 0}, {0, width()}, from.rows,
                 {from.first, from.rows.shape[2]}, end_ - begin_, width());
  }
  void hand_on(const HeadTarget& to, const Tensor& all) const {
    if (to)
      copy_columns(*to.target, {to.first, to.target->grad.shape[2]},
                   rows_of_one(all, begin_, end_).view(), {0, width()}, end_ - begin_, width());
  }

  std::shared_ptr<KeysAndValues> row_;
  AttentionHeads heads_;
  Tensor positions_;
  int64_t begin_, end_;
};

}  // namespace

void check_heads(std::string_view op, const AttentionHeads& x) {
  check(
      x.queries > 0 && x.groups > 0 && x.size > 0 && x.queries % x.groups == 0,
      "[{}] {} heads of queries in {} groups, of size {}: expected positive numbers, and the same "
      "number of heads in every group",
      op, x.queries, x.groups, x.size);
}

void check_packed_heads(std::string_view op, const Tensor& qkv, const AttentionHeads& heads) {
  check_same(op, {&qkv});
  check_heads(op, heads);
  const int64_t H = heads.queries, G = heads.groups, D = heads.size;
  check(qkv.shape().rank() == 3 && qkv.size(2) == (H + 2 * G) * D && qkv.numel() > 0,
        "[{}] qkv {} of {} heads in {} groups, of size {}: expected [N, T, {}], not empty", op,
        qkv.shape(), H, G, D, (H + 2 * G) * D);
}

Tensor attention_in_blocks(const Tensor& q, const Tensor& k, const Tensor& v,
                           const AttentionHeads& heads, const AttentionOptions& options) {
  const auto inputs = [=](const Tensor& q, const Tensor& k, const Tensor& v) {
    return CausalInputs{{q.view()},   {k.view()},    {v.view()},
                        {},           heads,         view_of(options.lengths),
                        options.mask, options.scale, view_of(options.key_mask)};
  };
  return attend_to<cpu::attention, cuda::attention, cpu::attention_backward,
                   cuda::attention_backward>("attention", q, k, v, inputs);
}

Tensor attention_in_blocks(const Tensor& qkv, const AttentionHeads& heads,
                           const AttentionOptions& options) {
  const auto inputs = [=](const Tensor& qkv) {
    CausalInputs in = packed_inputs(qkv, heads, {});
    in.lengths = view_of(options.lengths);
    in.mask = options.mask;
    in.scale = options.scale;
    in.key_mask = view_of(options.key_mask);
    return in;
  };
  return attend_to_packed<cpu::attention, cuda::attention, cpu::attention_backward,
                          cuda::attention_backward>("attention", qkv, inputs);
}

Tensor causal_attention(const Tensor& qkv, const AttentionHeads& heads, const Tensor& positions) {
  check_packed(qkv, heads, positions);
  const auto inputs = [=](const Tensor& qkv) { return packed_inputs(qkv, heads, positions); };
  return attend_to_packed<cpu::causal_attention, cuda::causal_attention,
                          cpu::causal_attention_backward, cuda::causal_attention_backward>(
      "causal_attention", qkv, inputs);
}

Tensor causal_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                        const AttentionHeads& heads, const Tensor& positions) {
  check_separate(q, k, v, heads, positions);
  const auto inputs = [=](const Tensor& q, const Tensor& k, const Tensor& v) {
    return CausalInputs{{q.view()}, {k.view()}, {v.view()}, view_of(positions), heads};
  };
  return attend_to<cpu::causal_attention, cuda::causal_attention, cpu::causal_attention_backward,
                   cuda::causal_attention_backward>("causal_attention", q, k, v, inputs);
}

Tensor causal_attention(const Tensor& qkv, const AttentionHeads& heads, const Tensor& positions,
                        const PieceOfRow& piece) {
  check_packed(qkv, heads, positions);
  const int64_t in_k = heads.queries * heads.size, in_v = in_k + heads.groups * heads.size;
  const PieceAttention attention(qkv, heads, positions, piece);
  Attended out = attention.run({qkv.view()}, {qkv.view(), in_k}, {qkv.view(), in_v});
  Tensor y = out.y;

  const Edge edge = qkv;
  record("causal_attention", y, {edge},
         [=, qkv = qkv.saved(), out = Attended{y.saved(), out.L}](Tensor& dy) {
           const auto to = claim_grad(edge);
           if (!to) return;
           attention.differentiate_queries({to}, true, true, dy, out, {qkv.view()});
           attention.hand_dk_on({to, in_k});
           attention.hand_dv_on({to, in_v});
           attention.finish();
         });
  return y;
}

Tensor causal_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                        const AttentionHeads& heads, const Tensor& positions,
                        const PieceOfRow& piece) {
  check_separate(q, k, v, heads, positions);
  check(q.size(1) == k.size(1), "[causal_attention] a piece of q {} and k {}: expected equal sizes",
        q.shape(), k.shape());
  const PieceAttention attention(q, heads, positions, piece);
  Attended out = attention.run({q.view()}, {k.view()}, {v.view()});
  Tensor y = out.y;

  const Edge dq_edge = q, dk_edge = k, dv_edge = v;
  record("causal_attention", y, {dq_edge, dk_edge, dv_edge},
         [=, q = q.saved(), out = Attended{y.saved(), out.L}](Tensor& dy) {
           attention.differentiate_queries({claim_grad(dq_edge)}, dk_edge.wants_grad(),
                                           dv_edge.wants_grad(), dy, out, {q.view()});
           attention.hand_dk_on({claim_grad(dk_edge)});
           attention.hand_dv_on({claim_grad(dv_edge)});
           attention.finish();
         });
  return y;
}

}  // namespace accrue
