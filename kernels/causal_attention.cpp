#include "kernels/causal_attention.h"

#include "kernels/cpu/attention_backward.h"
#include "kernels/cpu/attention_forward.h"

namespace accrue {
namespace cpu {

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
            const int64_t h = i / blocks;
            // Blocks that begin elsewhere in each head, because later ones take longer.
            backward.differentiate(query_block(t, group / t.G, group % t.G * t.heads_of_group() + h,
                                               (i + h) % blocks, in.positions, x.starts),
                                   x, sums);
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
