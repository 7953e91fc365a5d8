#include <limits>

#include "kernels/detail/causal_attention_kernels.h"
#include "kernels/detail/rotary_kernels.h"
#include "kernels/detail/self_attention_kernels.h"
#include "onnx/writer/onnx_trace.h"

// Declared here for the same reason as in nodes.cpp.
namespace accrue::cpu {

void embedding(View y, View w, View index);
void rotary(GradTarget y, View x, View positions, const RotaryPairs& pairs);
void self_attention(View y, View L, AttentionInputs in, View scratch);
void causal_attention(View y, View L, CausalInputs in, View scratch);
void attention(View y, View L, CausalInputs in, View scratch);
void segment_mean(View y, View x, View lengths);

}  // namespace accrue::cpu

namespace accrue {
namespace {

using Name = OnnxTrace::Name;
using Integers = OnnxTrace::Integers;

// softmax(scale * q k + mask)
Name probabilities(OnnxTrace& to, const Name& q, const Name& k, double scale,
                   const Name& mask = {}) {
  const Name scores = to.multiply(to.graph.add("MatMul", {q, k}), scale);
  return to.graph.add("Softmax", {mask.empty() ? scores : to.sum(scores, mask)}, {{"axis", -1}});
}

void attend(OnnxTrace& to, const View& y, const AttentionInputs& of) {
  const AttentionSizes sizes(of);
  const auto rows = [&](const View& x) { return to.graph.reshape(to.in(x), {0, 0, -1}); };
  const Name a = probabilities(to, to.transposed(rows(of.q), {0, 2, 1}), rows(of.k), sizes.scale());
  const Name means = to.graph.add("MatMul", {rows(of.v), to.transposed(a, {0, 2, 1})});
  const auto shape = y.shape.sizes().subspan(1);
  Integers target(shape.begin(), shape.end());
  target.insert(target.begin(), -1);
  to.define(y, to.graph.reshape(means, target));
}

// Heads [N, T, count * size], reshaped to [N, T, shape...] and transposed.
Name heads(OnnxTrace& to, const HeadColumns& of, int64_t width, const Integers& shape,
           const Integers& order) {
  Name x = to.in(of.rows);
  if (of.rows.shape[2] != width)
    x = to.graph.add("Slice", {x, to.graph.integers({of.first}),
                               to.graph.integers({of.first + width}), to.graph.integers({2})});
  Integers whole{0, 0};
  whole.insert(whole.end(), shape.begin(), shape.end());
  return to.transposed(to.graph.reshape(x, whole), order);
}

Name unseen_tokens(OnnxTrace& to) {
  if (!to.unseen.empty()) return to.unseen;
  const Name T = to.graph.add("Slice", {to.sizes, to.graph.integers({1}), to.graph.integers({2})});
  const Name square = to.graph.add("Concat", {T, T}, {{"axis", 0}});
  const Name never = to.graph.number(-std::numeric_limits<double>::infinity());
  return to.unseen =
             to.graph.add("Trilu", {to.graph.add("Expand", {never, square}), to.graph.integer(1)},
                          {{"upper", 1}});
}

// Heads h of a group g = h / R are adjacent: q [N, G, R, T, D], k [N, G, 1, D, T].
void attend(OnnxTrace& to, const View& y, const CausalInputs& of) {
  to.check_positions(of.positions);
  const CausalSizes sizes(of);
  const int64_t G = sizes.G, R = sizes.heads_of_group(), D = sizes.D;
  const Name q = heads(to, of.q, G * R * D, {G, R, D}, {0, 2, 3, 1, 4});
  const Name k = heads(to, of.k, G * D, {G, 1, D}, {0, 2, 3, 4, 1});
  const Name v = heads(to, of.v, G * D, {G, 1, D}, {0, 2, 3, 1, 4});
  const Name a = probabilities(to, q, k, sizes.scale(), unseen_tokens(to));
  const Name means = to.transposed(to.graph.add("MatMul", {a, v}), {0, 3, 1, 2, 4});
  to.define(y, to.graph.reshape(means, {0, 0, G * R * D}));
}

// q [N, H, T, D], k [N, G, S, D], v [N, G, S, E]. The heads of a group have their queries one below
// the other where they are multiplied.
void attend_to_heads(OnnxTrace& to, const View& y, const CausalInputs& of) {
  const CausalSizes sizes(of);
  const int64_t H = sizes.H, G = sizes.G, rows = H / G * sizes.Tq, T = sizes.Tq, S = sizes.T;
  const auto regroup = [&](const Name& x, const Integers& shape) {
    return H == G ? x : to.graph.reshape(x, shape);
  };
  const Name k = to.transposed(to.in(of.k.rows), {0, 1, 3, 2});
  const Name products =
      to.graph.add("MatMul", {regroup(to.in(of.q.rows), {0, G, rows, sizes.D}), k});
  Name scores = to.multiply(regroup(products, {0, H, T, S}), sizes.scale());
  if (sizes.is_causal) scores = to.sum(scores, to.unseen_from(1, {{T, S}, {T, S}}));
  if (of.lengths.data) {
    Integers places;
    for (int64_t s = 0; s < S; ++s) places.push_back(s);
    const double never = -std::numeric_limits<double>::infinity();
    const Name lengths =
        to.cast(to.graph.reshape(to.in(of.lengths), {-1, 1, 1, 1}), onnx::TensorProto::INT64);
    const Name is_seen = to.graph.add("Less", {to.graph.integers(places), lengths});
    scores = to.sum(scores,
                    to.graph.add("Where", {is_seen, to.graph.number(0), to.graph.number(never)}));
  }
  const Name mask = of.key_mask.data ? to.in(of.key_mask) : Name{};
  const Name a = to.softmax_of_seen(scores, mask, {0, 1, 1, -1});
  const Name means = to.graph.add("MatMul", {regroup(a, {0, G, rows, S}), to.in(of.v.rows)});
  to.define(y, regroup(means, {0, H, T, sizes.E}));
}

// Cosines and sines, [most_positions, count] each, as constants: computed in the graph in float32,
// the angles of late positions would be inexact.
const std::array<Name, 2>& rotations(OnnxTrace& to, const RotaryPairs& pairs) {
  auto& [cosines, sines] =
      to.rotations[std::vector(pairs.frequencies, pairs.frequencies + pairs.count)];
  if (cosines.empty()) {
    std::vector<float> cos, sin;
    for (int64_t t = 0; t < to.example.most_positions; ++t)
      for (int64_t i = 0; i < pairs.count; ++i) {
        const Rotation<float> rotation = pairs.rotation<float>(int32_t(t), i);
        cos.push_back(rotation.cos);
        sin.push_back(rotation.sin);
      }
    const Shape shape{to.example.most_positions, pairs.count};
    cosines = to.graph.numbers(cos, shape);
    sines = to.graph.numbers(sin, shape);
  }
  return to.rotations[std::vector(pairs.frequencies, pairs.frequencies + pairs.count)];
}

// The elements of a pair are in two halves of a head, [2, count], or adjacent, [count, 2].
void turn(OnnxTrace& to, const GradTarget& y, const View& x, const View& positions,
          const RotaryPairs& pairs) {
  to.check_positions(positions);
  const bool halves = pairs.step == 1;
  const int64_t axis = halves ? 3 : 4, count = pairs.count;
  const int64_t heads = x.shape[2] / (2 * count);
  const Integers shape = halves ? Integers{0, 0, heads, 2, count} : Integers{0, 0, heads, count, 2};
  const Integers one = halves ? Integers{0, 0, 1, 1, count} : Integers{0, 0, 1, count, 1};
  const auto of_tokens = [&](const Name& table) {
    return to.graph.reshape(to.graph.add("Gather", {table, to.in(positions)}), one);
  };
  const auto& [cosines, sines] = rotations(to, pairs);
  const Name cos = of_tokens(cosines), sin = of_tokens(sines);
  const auto parts =
      to.graph.add("Split", {to.graph.reshape(to.in(x), shape)}, 2, {{"axis", axis}});
  const Name &a = parts[0], &b = parts[1];
  const Name first = to.graph.add("Sub", {to.multiply(a, cos), to.multiply(b, sin)});
  const Name second = to.sum(to.multiply(a, sin), to.multiply(b, cos));
  const Name turned = to.graph.add("Concat", {first, second}, {{"axis", axis}});
  to.define(y, to.graph.reshape(turned, {0, 0, x.shape[2]}));
}

// The mean over the tokens of a row that has one segment: over those before its length.
void mean_of_text(OnnxTrace& to, const View& y, const View& x, const View& lengths) {
  check(y.shape[1] == 1, "means of several texts in a row have no counterpart in ONNX");
  const Name zero = to.graph.integer(0), one = to.graph.integer(1);
  const auto numbers = [&](const Name& of, int64_t type) {
    return to.graph.add("Cast", {of}, {{"to", type}});
  };
  const Name length = to.graph.reshape(to.in(lengths), {-1, 1, 1});
  const Name T = to.graph.add("Gather", {to.sizes, one});
  const Name places = to.graph.reshape(to.graph.add("Range", {zero, T, one}), {1, -1, 1});
  const Name counts =
      numbers(to.graph.add("Less", {places, numbers(length, onnx::TensorProto::INT64)}),
              onnx::TensorProto::FLOAT);
  const Name total =
      to.graph.add("ReduceSum", {to.multiply(to.in(x), counts), to.graph.integers({1})},
                   {{"keepdims", int64_t{1}}});
  to.define(y, to.graph.add("Div", {total, numbers(length, onnx::TensorProto::FLOAT)}));
}

}  // namespace

bool add_of_tokens(OnnxTrace& to, const KernelCall& call) {
  return call.is<cpu::embedding>([&](const View& y, const View& w, const View& index) {
    to.define(y, to.graph.add("Gather", {to.in(w), to.in(index)}));
  }) ||
         call.is<cpu::rotary>(
             [&](const GradTarget& y, const View& x, const View& positions,
                 const RotaryPairs& pairs) { turn(to, y, x, positions, pairs); }) ||
         call.is<cpu::self_attention>([&](const View& y, const View&, const AttentionInputs& of,
                                          const View&) { attend(to, y, of); }) ||
         call.is<cpu::causal_attention>([&](const View& y, const View&, const CausalInputs& of,
                                            const View&) { attend(to, y, of); }) ||
         call.is<cpu::attention>([&](const View& y, const View&, const CausalInputs& of,
                                     const View&) { attend_to_heads(to, y, of); }) ||
         call.is<cpu::segment_mean>([&](const View& y, const View& x, const View& lengths) {
           mean_of_text(to, y, x, lengths);
         });
}

}  // namespace accrue
