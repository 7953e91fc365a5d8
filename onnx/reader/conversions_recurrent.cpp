// ONNX's recurrent layers, step by step.

#include <algorithm>

#include "core/inside.h"
#include "onnx/reader/conversion_parts.h"

namespace accrue {
namespace {

using Values = OnnxValues;

// f of the list of activations, by its name there.
OnnxValue activated(OnnxConversion& c, const std::string& name, const OnnxValue& x) {
  static const std::map<std::string, std::string, std::less<>> known{
      {"Sigmoid", "sigmoid"},
      {"Tanh", "tanh"},
      {"Relu", "relu"},
      {"Softsign", "softsign"},
      {"HardSigmoid", "hard_sigmoid"}};
  const auto found = known.find(name);
  c.check(found != known.end(),
          "its activation is {}: expected Sigmoid, Tanh, Relu, Softsign or HardSigmoid", name);
  if (name == "HardSigmoid") return c.call("hard_sigmoid", {x}, {{"alpha", 0.2}, {"beta", 0.5}});
  return c.call(found->second, {x});
}

// One direction of a layer.
struct Recurrence {
  OnnxConversion& c;
  int64_t gates;  // 1, 3 or 4
  int64_t H;
  std::vector<std::string> activations;
  bool resets_after;                           // of a GRU: r multiplies the product
  OnnxValue recurrent, hidden_bias, peephole;  // R [gates H, H], its bias, P [3 H]

  struct State {
    OnnxValue h, c;  // undefined before the first step, where they are 0
  };

  OnnxValue call(std::string_view op, const OnnxValues& operands) const {
    return c.call(op, operands);
  }
  OnnxValue part(const OnnxValue& x, int64_t i, int64_t count = 1) const {
    return c.call("slice", {x},
                  {{"dim", int64_t{x.rank() - 1}}, {"start", i * H}, {"end", (i + count) * H}});
  }
  static bool is_there(const OnnxValue& x) {
    return x.is_constant() || x.number != OnnxValue::none;
  }
  // The terms that are there, added up.
  OnnxValue total(const OnnxValues& terms) const {
    OnnxValue y;
    for (const OnnxValue& each : terms)
      if (is_there(each)) y = is_there(y) ? call("add", {y, each}) : each;
    return y;
  }
  OnnxValue f(size_t i, const OnnxValue& x) const { return activated(c, activations.at(i), x); }

  // R h + its bias; undefined if both are not there.
  OnnxValue hidden(const OnnxValue& h) const {
    if (!is_there(h)) return hidden_bias;
    OnnxValues operands{h, recurrent};
    if (is_there(hidden_bias)) operands.push_back(hidden_bias);
    return call("linear", operands);
  }

  // Gates i, o, f, c
  State lstm(const OnnxValue& x, const State& before) const {
    const OnnxValue z = total({x, hidden(before.h)});
    const auto seen = [&](int64_t gate, const OnnxValue& cell) {
      const bool peeps = is_there(peephole) && is_there(cell);
      const OnnxValue own = part(z, gate);
      return peeps ? total({own, call("mul", {part(peephole, gate), cell})}) : own;
    };
    // The peepholes are for i, o and f.
    const OnnxValue i = f(0, seen(0, before.c));
    OnnxValue cell = call("mul", {i, f(1, part(z, 3))});
    if (is_there(before.c))
      cell = call("add", {call("mul", {f(0, seen(2, before.c)), before.c}), cell});
    const OnnxValue o = f(0, seen(1, cell));
    return {call("mul", {o, f(2, cell)}), cell};
  }

  // Gates z, r, h
  State gru(const OnnxValue& x, const State& before) const {
    const OnnxValue& h = before.h;
    OnnxValue z, n;
    if (resets_after || !is_there(h)) {
      const OnnxValue more = hidden(h);
      const auto of = [&](int64_t gate) { return is_there(more) ? part(more, gate) : OnnxValue{}; };
      z = f(0, total({part(x, 0), of(0)}));
      OnnxValue candidate = part(x, 2);
      if (is_there(more)) {
        OnnxValue kept = of(2);
        if (resets_after) kept = call("mul", {f(0, total({part(x, 1), of(1)})), kept});
        candidate = total({candidate, kept});
      }
      n = f(1, candidate);
    } else {
      // The product of the candidate is of r h.
      const OnnxValue first = rows(recurrent, 0, 2), last = rows(recurrent, 2, 1);
      const OnnxValue zr = total({part(x, 0, 2), call("linear", {h, first}),
                                  is_there(hidden_bias) ? part(hidden_bias, 0, 2) : OnnxValue{}});
      z = f(0, part(zr, 0));
      const OnnxValue reset = call("mul", {f(0, part(zr, 1)), h});
      n = f(1, total({part(x, 2), call("linear", {reset, last}),
                      is_there(hidden_bias) ? part(hidden_bias, 2) : OnnxValue{}}));
    }
    if (!is_there(h)) return {call("sub", {n, call("mul", {z, n})}), {}};
    return {call("add", {call("mul", {call("sub", {h, n}), z}), n}), {}};
  }

  State step(const OnnxValue& x, const State& before) const {
    if (gates == 4) return lstm(x, before);
    if (gates == 3) return gru(x, before);
    return {f(0, total({x, hidden(before.h)})), {}};
  }

  OnnxValue rows(const OnnxValue& weight, int64_t first, int64_t count) const {
    return c.call("slice", {weight},
                  {{"dim", int64_t{0}}, {"start", first * H}, {"end", (first + count) * H}});
  }
};

// Element i of the first dimension.
OnnxValue element(OnnxConversion& c, const OnnxValue& x, int64_t i) {
  const Extents& sizes = x.sizes.shape;
  const Extents rest(sizes.begin() + 1, sizes.end());
  if (sizes.front() == Extent(1)) return c.reshape(x, rest);
  return c.reshape(c.call("slice", {x}, {{"dim", int64_t{0}}, {"start", i}, {"end", i + 1}}), rest);
}

OnnxValue permuted(OnnxConversion& c, const OnnxValue& x, const Integers& order) {
  return c.call("permute", {x}, {{"dims", order}});
}

struct RecurrentLayer {
  int64_t gates;
  std::vector<std::string> activations;  // by default
  size_t initial_c = 0;                  // inputs; 0: none
  size_t peepholes = 0;
};

std::vector<std::string> names(OnnxConversion& c, const std::string& attribute,
                               std::vector<std::string> by_default) {
  if (!c.has(attribute)) return by_default;
  const auto* const given = std::get_if<std::vector<std::string>>(&c.node.attributes.at(attribute));
  c.check(given != nullptr, "its attribute '{}' is of another kind: expected texts", attribute);
  return *given;
}

void refuse(OnnxConversion& c) {
  c.check(!c.has("clip"), "it has clip: expected none");
  for (const char* const each : {"activation_alpha", "activation_beta"})
    c.check(!c.has(each), "it has {}: expected the activations' own", each);
}

// All steps of one direction: h after each, in the order of x, and the last state.
struct Run {
  OnnxValues outputs;
  Recurrence::State last;
};

Run run(const Recurrence& by, const OnnxValue& inputs, Recurrence::State state, bool is_reversed) {
  const int64_t T = inputs.sizes.shape.front().number;
  Run made;
  made.outputs.resize(size_t(T));
  for (int64_t i = 0; i < T; ++i) {
    const int64_t t = is_reversed ? T - 1 - i : i;
    state = by.step(element(by.c, inputs, t), state);
    made.outputs[size_t(t)] = state.h;
  }
  made.last = state;
  return made;
}

// x [T, N, I], W [directions, gates H, I], R [directions, gates H, H], B [directions, 2 gates H],
// lengths, initial_h [directions, N, H], initial_c, P. Y [T, directions, N, H], and the last
// states [directions, N, H]. With layout 1 N is first.
Values recurrent_of(OnnxConversion& c, const RecurrentLayer& layer) {
  refuse(c);
  const std::string direction = c.text("direction", "forward");
  const bool is_both = direction == "bidirectional", is_reverse = direction == "reverse";
  c.check(is_both || is_reverse || direction == "forward",
          "direction is '{}': expected forward, reverse or bidirectional", direction);
  const int64_t D = is_both ? 2 : 1, layout = c.integer("layout", 0);
  const OnnxValue x = layout == 1 ? permuted(c, c[0], {1, 0, 2}) : c[0];
  c.check(x.rank() == 3 && !x.sizes.shape[0].per_sample && !x.sizes.shape[2].per_sample,
          "its input is {}: expected {} with the samples as N", to_string(c[0].sizes),
          layout == 1 ? "[N, T, features]" : "[T, N, features]");
  const int64_t T = x.sizes.shape[0].number, G = layer.gates, H = c.size(2, 2);
  c.check(c.integer("hidden_size", H) == H, "hidden_size is not that of its weights: expected {}",
          H);
  c.check(T >= 1 && T <= 1 << 16, "it has {}: expected 1 to 2^16, because each becomes calls",
          counted(T, "step"));
  if (c.has(4))
    for (const double length : c.numbers(4))
      c.check(length == double(T), "a sequence has length {} of {}: expected all", length, T);
  std::vector<std::string> all = layer.activations;
  if (is_both) all.insert(all.end(), layer.activations.begin(), layer.activations.end());
  all = names(c, "activations", all);
  c.check(std::ssize(all) == D * std::ssize(layer.activations),
          "it has {} activations: expected {}", all.size(), D * std::ssize(layer.activations));
  const bool resets_after = c.integer("linear_before_reset", 0) != 0;
  c.check(c.integer("input_forget", 0) == 0, "input_forget is 1: expected 0");

  const auto of_direction = [&](size_t input, int64_t d) {
    const bool is_state = input == 5 || (layer.initial_c != 0 && input == layer.initial_c);
    if (input == 0 || !c.has(input)) return OnnxValue{};
    OnnxValue value = c[input];
    if (is_state && layout == 1) value = permuted(c, value, {1, 0, 2});
    return element(c, value, d);
  };
  std::vector<Run> runs;
  for (int64_t d = 0; d < D; ++d) {
    Recurrence by{c, G, H, {}, resets_after, of_direction(2, d), {}, {}};
    const auto first = all.begin() + d * std::ssize(layer.activations);
    by.activations.assign(first, first + std::ssize(layer.activations));
    OnnxValues operands{x, of_direction(1, d)};
    if (c.has(3)) {
      const OnnxValue both = of_direction(3, d);
      operands.push_back(by.part(both, 0, G));
      by.hidden_bias = by.part(both, G, G);
    }
    by.peephole = of_direction(layer.peepholes, d);
    const OnnxValue inputs = c.call("linear", operands);
    runs.push_back(run(by, inputs, {of_direction(5, d), of_direction(layer.initial_c, d)},
                       is_reverse || d == 1));
  }

  // Y [T, D, N, H], or [N, T, D, H]
  const int64_t batch = layout == 1 ? 0 : 2;
  const auto joined = [&](const OnnxValues& parts, int64_t dim) {
    return c.call("stack", parts, {{"dim", dim}});
  };
  Values results(c.outputs());
  if (c.needs(0)) {
    OnnxValues directions;
    for (const Run& each : runs) directions.push_back(joined(each.outputs, batch == 0 ? 1 : 0));
    results[0] = joined(directions, batch == 0 ? 2 : 1);
  }
  OnnxValues h, cells;
  for (const Run& each : runs) {
    h.push_back(each.last.h);
    cells.push_back(each.last.c);
  }
  if (c.needs(1)) results[1] = joined(h, batch == 0 ? 1 : 0);
  if (G == 4 && c.needs(2)) results[2] = joined(cells, batch == 0 ? 1 : 0);
  return results;
}

Values lstm_of(OnnxConversion& c) {
  return recurrent_of(c, {4, {"Sigmoid", "Tanh", "Tanh"}, 6, 7});
}
Values gru_of(OnnxConversion& c) { return recurrent_of(c, {3, {"Sigmoid", "Tanh"}}); }
Values rnn_of(OnnxConversion& c) { return recurrent_of(c, {1, {"Tanh"}}); }

}  // namespace

void detail::add_onnx_recurrent_conversions(OnnxConverters& converters) {
  const OnnxConverters rows{
      {"LSTM", {lstm_of, {1, 2, 3, 7}}},
      {"GRU", {gru_of, {1, 2, 3}}},
      {"RNN", {rnn_of, {1, 2, 3}}},
  };
  converters.insert(rows.begin(), rows.end());
}

}  // namespace accrue
