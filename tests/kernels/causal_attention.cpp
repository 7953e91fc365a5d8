#include "kernels/causal_attention.h"

#include <array>
#include <cmath>

#include "core/autograd.h"
#include "core/ledger.h"
#include "core/random.h"
#include "kernels/concat.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"
#include "tests/support/op_table.h"
#include "tests/support/thread_scope.h"
#include "tests/support/wanted_gradients.h"

namespace accrue::test {
namespace {

// Shapes, and the lengths of the documents in every row; without lengths the op gets no positions.
struct CausalCase {
  size_t N, H, G, D, Tq, T;
  std::vector<int32_t> lengths = {};

  AttentionHeads heads() const { return {int64_t(H), int64_t(G), int64_t(D)}; }
  Shape shape_of(size_t tokens, size_t heads) const {
    return {int64_t(N), int64_t(tokens), int64_t(heads * D)};
  }
  std::array<Shape, 3> shapes() const { return {shape_of(Tq, H), shape_of(T, G), shape_of(T, G)}; }
  Shape packed() const { return shape_of(T, H + 2 * G); }
  std::vector<int32_t> positions() const {
    std::vector<int32_t> of_row;
    for (const int32_t length : lengths)
      for (int32_t i = 0; i < length; ++i) of_row.push_back(i);
    of_row.erase(of_row.begin(), of_row.end() - std::ptrdiff_t(lengths.empty() ? 0 : Tq));
    std::vector<int32_t> all;
    for (size_t n = 0; n < N; ++n) all.insert(all.end(), of_row.begin(), of_row.end());
    return all;
  }
  Tensor positions(const Tensor& like) const {
    if (lengths.empty()) return {};
    return indices(positions(), like).reshape({int64_t(N), int64_t(Tq)});
  }
  size_t at(size_t n, size_t token, size_t head, size_t tokens, size_t heads) const {
    return ((n * tokens + token) * heads + head) * D;
  }
};

struct CausalGradients {
  Values y, dq, dk, dv;
};

enum class Terms { as_they_are, by_magnitude };

// The plain formula, token by token, and its gradients from dy, if there is one. With
// Terms::by_magnitude it adds up magnitudes: the error of a sum is at most the relative error of
// its terms, times that sum.
CausalGradients plain_causal_attention(const CausalCase& c, const Values& q, const Values& k,
                                       const Values& v, const Values& dy = {},
                                       Terms terms = Terms::as_they_are) {
  CausalGradients out{Values(q.size()), Values(q.size()), Values(k.size()), Values(v.size())};
  const auto positions = c.positions();
  const double scale = 1 / std::sqrt(double(c.D));
  const auto of = [terms](double x) { return terms == Terms::by_magnitude ? std::abs(x) : x; };
  const double minus = terms == Terms::by_magnitude ? 1 : -1;
  for (size_t n = 0; n < c.N; ++n)
    for (size_t h = 0; h < c.H; ++h)
      for (size_t i = 0; i < c.Tq; ++i) {
        const size_t last = c.T - c.Tq + i, g = h / (c.H / c.G);
        const size_t first = c.lengths.empty() ? 0 : last - size_t(positions[n * c.Tq + i]);
        const size_t query = c.at(n, i, h, c.Tq, c.H);
        const auto dot = [&](const Values& a, size_t at_a, const Values& b, size_t at_b) {
          double sum = 0;
          for (size_t d = 0; d < c.D; ++d) sum += a[at_a + d] * b[at_b + d];
          return sum;
        };
        Values a(c.T);
        double sum = 0, mean = 0;
        for (size_t j = first; j <= last; ++j)
          sum += a[j] = std::exp(scale * dot(q, query, k, c.at(n, j, g, c.T, c.G)));
        for (size_t j = first; j <= last; ++j) {
          a[j] /= sum;
          for (size_t d = 0; d < c.D; ++d)
            out.y[query + d] += a[j] * of(v[c.at(n, j, g, c.T, c.G) + d]);
        }
        if (dy.empty()) continue;
        const auto da = [&](size_t j) {
          double sum = 0;
          for (size_t d = 0; d < c.D; ++d)
            sum += of(dy[query + d] * v[c.at(n, j, g, c.T, c.G) + d]);
          return sum;
        };
        for (size_t j = first; j <= last; ++j) mean += a[j] * da(j);
        for (size_t j = first; j <= last; ++j) {
          const size_t key = c.at(n, j, g, c.T, c.G);
          const double ds = a[j] * (da(j) + minus * mean) * scale;
          for (size_t d = 0; d < c.D; ++d) {
            out.dv[key + d] += a[j] * of(dy[query + d]);
            out.dk[key + d] += ds * of(q[query + d]);
            out.dq[query + d] += ds * of(k[key + d]);
          }
        }
      }
  return out;
}

// A score is a sum of D products, an exponential takes a few operations, and the softmax and y are
// sums over T. Backward has sums of D products, and sums over the tokens of all heads of a group.
double causal_depth(const CausalCase& c) { return double(2 * c.D + (2 + c.H / c.G) * c.T + 8); }

Op causal_op(const CausalCase& c) {
  const auto shapes = c.shapes();
  return {
      .name = fmt::format("causal_attention of q {}, k and v {}, {} documents", shapes[0],
                          shapes[1], c.lengths.size()),
      .inputs = {shapes.begin(), shapes.end()},
      .run =
          [=](const auto& in) {
            return causal_attention(in[0], in[1], in[2], c.heads(), c.positions(in[0]));
          },
      .reference = [=](const auto& in) { return plain_causal_attention(c, in[0], in[1], in[2]).y; },
      .depth = causal_depth(c),
      // On cuda a and ds are rounded, too.
      .roundings = 2};
}

// Takes the columns of heads [first, first + count) from packed rows.
Values unpacked(const CausalCase& c, const Values& qkv, size_t first, size_t count) {
  const size_t all = c.H + 2 * c.G;
  Values out;
  for (size_t row = 0; row < c.N * c.T; ++row)
    for (size_t i = first * c.D; i < (first + count) * c.D; ++i)
      out.push_back(qkv[row * all * c.D + i]);
  return out;
}

Op packed_causal_op(const CausalCase& c) {
  return {
      .name = fmt::format("causal_attention of qkv {}, {} documents", c.packed(), c.lengths.size()),
      .inputs = {c.packed()},
      .run = [=](const auto& in) { return causal_attention(in[0], c.heads(), c.positions(in[0])); },
      .reference =
          [=](const auto& in) {
            return plain_causal_attention(c, unpacked(c, in[0], 0, c.H),
                                          unpacked(c, in[0], c.H, c.G),
                                          unpacked(c, in[0], c.H + c.G, c.G))
                .y;
          },
      .depth = causal_depth(c),
      // On cuda a and ds are rounded, too.
      .roundings = 2};
}

// The same op with the row in pieces of these sizes; each piece is a tensor.
Op pieces_op(const CausalCase& c, const std::vector<int64_t>& sizes) {
  const auto columns = static_cast<int64_t>((c.H + 2 * c.G) * c.D);
  std::vector<Shape> shapes;
  for (const int64_t size : sizes) shapes.push_back({1, size, columns});
  return {.name = fmt::format("causal_attention of {} pieces of qkv {}, {} documents", sizes.size(),
                              c.packed(), c.lengths.size()),
          .inputs = shapes,
          .run =
              [=](const auto& in) {
                const auto row = std::make_shared<KeysAndValues>(KeysAndValues{int64_t(c.T)});
                const Tensor positions = c.positions(in[0]);
                std::vector<Tensor> outputs;
                int64_t begin = 0;
                for (size_t i = 0; i < sizes.size(); begin += sizes[i++]) {
                  Tensor own;
                  if (positions.defined())
                    own = positions.reshape({int64_t(c.T)})
                              .slice(begin, begin + sizes[i])
                              .reshape({1, sizes[i]});
                  outputs.push_back(causal_attention(in[i], c.heads(), own, {row, begin}));
                }
                return concat(outputs, 1);
              },
          .reference =
              [=](const auto& in) {
                Values all;
                for (const Values& piece : in) all.insert(all.end(), piece.begin(), piece.end());
                return packed_causal_op(c).reference({all});
              },
          .depth = causal_depth(c),
          // On cuda a and ds are rounded, too; dk and dv are rounded once for each piece.
          .roundings = 2 + double(sizes.size())};
}

double causal_largest(const Values& values) {
  double largest = 1;
  for (const double v : values) largest = std::max(largest, std::abs(v));
  return largest;
}

// Copies x to an address that is a multiple of 16 bytes or, if displaced, one element behind it.
Tensor placed(const Tensor& x, bool displaced) {
  const int64_t size = x.shape().numel(), begin = displaced ? 1 : 0;
  Tensor whole = Tensor::full({begin + size}, NAN, x.dtype(), x.device());
  Tensor part = whole.slice(begin, begin + size).reshape(x.shape());
  part.copy_from(x);
  return part;
}

enum class Operand { none, q, k, v, dy, dq, dk, dv };

// Compares y and the gradients for random values with the plain formula. Gradients are added to
// 0.5, or replace NaN. The operand `displaced` lies one element behind a multiple of 16 bytes.
void check_16_bits(const CausalCase& c, DType dtype, bool adds, Operand displaced = Operand::none) {
  const auto shapes = c.shapes();
  INFO(to_string(shapes[0]) << ", " << to_string(shapes[1]) << ", " << name(dtype) << ", displaced "
                            << int(displaced));
  constexpr std::array operands{Operand::q, Operand::k, Operand::v},
      gradients{Operand::dq, Operand::dk, Operand::dv};
  std::array<Values, 3> in;
  std::array<Tensor, 3> leaves;
  for (size_t i = 0; i < 3; ++i) {
    const Tensor x = tensor_with(random_values(shapes[i], i), shapes[i], dtype);
    leaves[i] = require_grad(placed(x, displaced == operands[i]));
    in[i] = to_doubles(leaves[i]);
    leaves[i].variable()->grad = placed(
        Tensor::full(shapes[i], adds ? 0.5 : NAN, dtype, test_device()), displaced == gradients[i]);
    leaves[i].variable()->fresh = !adds;
  }
  const Tensor dy = tensor_with(random_values(shapes[0], 4), shapes[0], dtype);
  const CausalGradients expected = plain_causal_attention(c, in[0], in[1], in[2], to_doubles(dy)),
                        magnitudes = plain_causal_attention(c, in[0], in[1], in[2], to_doubles(dy),
                                                            Terms::by_magnitude);
  const Tensor y =
      causal_attention(leaves[0], leaves[1], leaves[2], c.heads(), c.positions(leaves[0]));
  // `rounding` is half a unit in the last place. A sum of terms with a or ds has the rounding of
  // the terms and its own. In ds, t is a sum of terms with y, which has two roundings. Half rounds
  // numbers below 2^-14 to multiples of 2^-24.
  const double rounding = dtype == DType::f16 ? 0x1p-11 : 0x1p-8;
  const auto check = [&](const Values& found, const Values& wanted, const Values& size,
                         double roundings, double there) {
    const double part = roundings * rounding + causal_depth(c) * 0x1p-24;
    bool is_close = true;
    for (size_t i = 0; i < found.size(); ++i)
      is_close &= std::abs(found[i] - (wanted[i] + there)) <=
                  part * size[i] + there * rounding + double(c.T) * 0x1p-24;
    REQUIRE(is_close);
  };
  check(to_doubles(y), expected.y, magnitudes.y, 2, 0);
  y.variable()->grad = placed(dy, displaced == Operand::dy);
  y.variable()->fresh = true;
  backward_from(y, to_doubles(dy));
  const double there = adds ? 0.5 : 0;
  check(to_doubles(grad(leaves[0])), expected.dq, magnitudes.dq, 4, there);
  check(to_doubles(grad(leaves[1])), expected.dk, magnitudes.dk, 4, there);
  check(to_doubles(grad(leaves[2])), expected.dv, magnitudes.dv, 2, there);
}

// Compares dq and dk for `scale` times a dy with dq and dk for dy. The factors of q, k and v make
// the gradients of the scores large, but not dq and dk.
void check_scale_of_dy(const CausalCase& c, DType dtype, double scale) {
  constexpr std::array<float, 3> factors{0x1p-4f, 0x1p-4f, 0x1p7f};
  const auto shapes = c.shapes();
  INFO(name(dtype) << ", " << scale);
  const auto gradients = [&](double factor) {
    std::array<Tensor, 3> leaves;
    for (size_t i = 0; i < 3; ++i)
      leaves[i] =
          require_grad(tensor_with(random_values(shapes[i], i, factors[i]), shapes[i], dtype));
    const Tensor y =
        causal_attention(leaves[0], leaves[1], leaves[2], c.heads(), c.positions(leaves[0]));
    Values dy = random_values(shapes[0], 4);
    for (double& g : dy) g = factor * std::round(g * 64) / 64;
    backward_from(y, dy);
    return std::array{to_doubles(grad(leaves[0])), to_doubles(grad(leaves[1]))};
  };
  const auto found = gradients(scale), expected = gradients(1);
  const double rounding = dtype == DType::f16 ? 0x1p-11 : 0x1p-8;
  for (size_t i = 0; i < 2; ++i) {
    double most = 0;
    for (size_t at = 0; at < found[i].size(); ++at) {
      const double wanted = scale * expected[i][at],
                   allowed = 2 * rounding * std::abs(wanted) + (1 + scale) * 0x1p-25;
      const double part = std::abs(found[i][at] - wanted) / allowed;
      most = part <= most ? most : part;
    }
    REQUIRE(most <= 1);
  }
}

// y, dq, dk and dv of random values, but with `value` in a channel of the first head of a token.
std::array<Values, 4> results_with(const CausalCase& c, DType dtype, Operand operand, size_t token,
                                   double value) {
  const auto shapes = c.shapes();
  const std::array all{shapes[0], shapes[1], shapes[2], shapes[0]};  // of q, k, v and dy
  std::array<Values, 4> in;
  for (size_t i = 0; i < 4; ++i) {
    in[i] = random_values(all[i], i);
    const bool of_queries = i == 0 || i == 3;
    const size_t tokens = of_queries ? c.Tq : c.T, before = c.T - tokens;
    if (operand == std::array{Operand::q, Operand::k, Operand::v, Operand::dy}[i])
      in[i][c.at(0, token - before, 0, tokens, of_queries ? c.H : c.G) + 3] = value;
  }
  std::array<Tensor, 3> leaves;
  for (size_t i = 0; i < 3; ++i) leaves[i] = require_grad(tensor_with(in[i], all[i], dtype));
  const Tensor y =
      causal_attention(leaves[0], leaves[1], leaves[2], c.heads(), c.positions(leaves[0]));
  backward_from(y, in[3]);
  return {to_doubles(y), to_doubles(grad(leaves[0])), to_doubles(grad(leaves[1])),
          to_doubles(grad(leaves[2]))};
}

// Puts NaN or infinity into a token's operand. Results that do not depend on it must be the same as
// for finite values.
void check_isolated(const CausalCase& c, DType dtype, size_t token) {
  const auto document = [&](size_t t) {
    size_t index = 0;
    for (size_t end = size_t(c.lengths[0]); t >= end; end += size_t(c.lengths[++index])) continue;
    return index;
  };
  const auto clean = results_with(c, dtype, Operand::none, token, 0);
  for (const Operand operand : {Operand::q, Operand::k, Operand::v, Operand::dy})
    for (const double value : {double(NAN), double(INFINITY)}) {
      INFO("q " << to_string(c.shapes()[0]) << ", " << name(dtype) << ", token " << token
                << ", operand " << int(operand) << ", " << value);
      const auto found = results_with(c, dtype, operand, token, value);
      const bool of_query = operand == Operand::q || operand == Operand::dy;
      bool is_equal = true, is_spoiled = false;
      for (size_t r = 0; r < 4; ++r) {
        const bool per_query = r < 2;
        const size_t heads = per_query ? c.H : c.G, before = per_query ? c.T - c.Tq : 0;
        for (size_t i = 0; i < found[r].size(); ++i) {
          const size_t t = before + i / (heads * c.D);
          const bool depends =
              document(t) == document(token) &&
              (per_query ? (of_query ? t == token : t >= token) : (of_query ? t <= token : true));
          if (depends) is_spoiled |= !std::isfinite(found[r][i]);
          else is_equal &= found[r][i] == clean[r][i];
        }
      }
      REQUIRE(is_equal);
      REQUIRE(is_spoiled);
    }
}

}  // namespace

TEST_CASE("causal_attention", "[ops]") {
  check_op(causal_op({.N = 2, .H = 1, .G = 1, .D = 2, .Tq = 4, .T = 4}));
  check_op(causal_op({.N = 1, .H = 4, .G = 2, .D = 1, .Tq = 3, .T = 5}));
  // On a GPU tensor cores compute this case in 16 bits.
  check_op(causal_op({.N = 1, .H = 1, .G = 1, .D = 8, .Tq = 2, .T = 3}));
}

TEST_CASE("causal_attention within documents", "[ops]") {
  check_op(causal_op({.N = 1, .H = 2, .G = 1, .D = 2, .Tq = 6, .T = 6, .lengths = {2, 1, 3}}));
  // The first query's document begins before it.
  check_op(causal_op({.N = 1, .H = 1, .G = 1, .D = 3, .Tq = 4, .T = 6, .lengths = {1, 3, 2}}));
}

TEST_CASE("causal_attention of packed rows", "[ops]") {
  check_op(packed_causal_op({.N = 1, .H = 2, .G = 2, .D = 2, .Tq = 4, .T = 4}));
  check_op(
      packed_causal_op({.N = 1, .H = 2, .G = 1, .D = 2, .Tq = 5, .T = 5, .lengths = {1, 3, 1}}));
}

TEST_CASE("causal_attention of a row in pieces", "[ops]") {
  check_op(pieces_op({.N = 1, .H = 2, .G = 1, .D = 2, .Tq = 5, .T = 5}, {2, 3}));
  check_op(pieces_op({.N = 1, .H = 1, .G = 1, .D = 3, .Tq = 5, .T = 5, .lengths = {1, 3, 1}},
                     {1, 1, 2, 1}));
}

// Separate q, k and v, and pieces that end within blocks, compared with the plain formula and its
// gradients.
TEST_CASE("causal_attention of many tokens in pieces is the plain formula", "[ops]") {
  const CausalCase c{
      .N = 1, .H = 2, .G = 1, .D = 16, .Tq = 210, .T = 210, .lengths = {17, 1, 100, 92}};
  const auto shapes = c.shapes();
  const Values dy = random_values(shapes[0], 4);
  std::array<Values, 3> in;
  for (size_t i = 0; i < 3; ++i) in[i] = random_values(shapes[i], i);
  const CausalGradients expected = plain_causal_attention(c, in[0], in[1], in[2], dy);
  const std::vector<int64_t> ends{50, 51, 147, 210};
  for (int wanted = 1; wanted < 8; ++wanted) {  // bits of q, k and v
    if (reduced() && wanted != 7 && wanted != 2) continue;
    const auto row = std::make_shared<KeysAndValues>(KeysAndValues{int64_t(c.T)});
    std::vector<std::array<Tensor, 3>> leaves;
    std::vector<Tensor> outputs;
    int64_t begin = 0;
    for (const int64_t end : ends) {
      std::array<Tensor, 3> piece;
      for (size_t i = 0; i < 3; ++i) {
        const int64_t width = shapes[i][2];
        const Values own(in[i].begin() + begin * width, in[i].begin() + end * width);
        piece[i] = tensor_with(own, {1, end - begin, width}, DType::f64);
        if (wanted >> i & 1) piece[i] = require_grad(piece[i]);
      }
      const Tensor positions =
          c.positions(piece[0]).reshape({int64_t(c.T)}).slice(begin, end).reshape({1, end - begin});
      outputs.push_back(
          causal_attention(piece[0], piece[1], piece[2], c.heads(), positions, {row, begin}));
      leaves.push_back(piece);
      begin = end;
    }
    const Tensor y = concat(outputs, 1);
    const double unit = causal_depth(c) * 0x1p-53;
    REQUIRE(largest_difference(to_doubles(y), expected.y) <= unit);
    backward_from(y, dy);
    const std::array gradients{expected.dq, expected.dk, expected.dv};
    for (size_t i = 0; i < 3; ++i) {
      if (!(wanted >> i & 1)) continue;
      Values all;
      for (const auto& piece : leaves)
        for (const double g : to_doubles(grad(piece[i]))) all.push_back(g);
      REQUIRE(largest_difference(all, gradients[i]) <= unit * causal_largest(gradients[i]));
    }
    REQUIRE(!row->dk.defined());
    REQUIRE(!row->dv.defined());
  }
}

TEST_CASE("causal_attention of pieces in a wrong order is an error", "[ops]") {
  const AttentionHeads heads{1, 1, 2};
  const auto row = std::make_shared<KeysAndValues>(KeysAndValues{4});
  const Tensor x = ones({1, 2, 6}), leaf = require_grad(x);
  const Tensor first = causal_attention(leaf, heads, {}, {row, 0});
  const Tensor second = causal_attention(leaf, heads, {}, {row, 2});
  const Tensor again = causal_attention(leaf, heads, {}, {row, 2});
  backward_of_sum(second);
  REQUIRE_ERROR(backward_of_sum(again), "after the backward from token 2 on");
  backward_of_sum(first);
  REQUIRE_ERROR(causal_attention(leaf, heads, {}, {row, 3}), "pieces of tokens 3 to 5");
  REQUIRE_ERROR(causal_attention(ones({2, 2, 6}), heads, {}, {row, 0}), "2 pieces");
}

TEST_CASE("causal_attention of one tensor", "[ops]") {
  const CausalCase c{.N = 1, .H = 1, .G = 1, .D = 2, .Tq = 3, .T = 3};
  check_op({.name = "causal_attention of x, x, x",
            .inputs = {c.shapes()[0]},
            .run = [=](const auto& in) { return causal_attention(in[0], in[0], in[0], c.heads()); },
            .reference =
                [=](const auto& in) { return plain_causal_attention(c, in[0], in[0], in[0]).y; },
            .depth = causal_depth(c),
            // Each gradient is the sum of three.
            .roundings = 3});
}

// The cases have several blocks of queries and keys on either device, heads whose channels do or do
// not fill whole vectors, groups whose backward is cut into parts, and documents that begin within
// blocks or skip some.
TEST_CASE("causal_attention of many tokens is the plain formula", "[ops]") {
  const std::vector<CausalCase> cases{
      {.N = 1, .H = 2, .G = 1, .D = 16, .Tq = 203, .T = 203},
      {.N = 2, .H = 2, .G = 2, .D = 5, .Tq = 70, .T = 131},
      {.N = 1, .H = 2, .G = 1, .D = 80, .Tq = 40, .T = 40, .lengths = {7, 33}},
      {.N = 1, .H = 1, .G = 1, .D = 16, .Tq = 210, .T = 210, .lengths = {17, 1, 100, 92}}};
  for (const CausalCase& c : cases)
    for (const DType dtype : {DType::f64, DType::f32}) {
      const auto shapes = c.shapes();
      INFO(to_string(shapes[0]) << ", " << name(dtype));
      std::array<Values, 3> in;
      std::array<Tensor, 3> leaves;
      for (size_t i = 0; i < 3; ++i) {
        in[i] = random_values(shapes[i], i);
        leaves[i] = require_grad(tensor_with(in[i], shapes[i], dtype));
      }
      const Values dy = random_values(shapes[0], 4);
      const CausalGradients expected = plain_causal_attention(c, in[0], in[1], in[2], dy);
      const Tensor y =
          causal_attention(leaves[0], leaves[1], leaves[2], c.heads(), c.positions(leaves[0]));
      const double unit = causal_depth(c) * (dtype == DType::f64 ? 0x1p-53 : 0x1p-24);
      REQUIRE(largest_difference(to_doubles(y), expected.y) <= unit);
      backward_from(y, dy);
      const std::array gradients{expected.dq, expected.dk, expected.dv};
      for (size_t i = 0; i < 3; ++i)
        REQUIRE(largest_difference(to_doubles(grad(leaves[i])), gradients[i]) <=
                unit * causal_largest(gradients[i]));
    }
}

// On a GPU tensor cores compute attention if all operands have 16 bits and their channels fill
// vectors of 8. The cases have one or several tiles of 64 rows, groups, queries that are the last
// of more tokens, documents, and up to 64 or up to 128 channels. Other shapes are computed as in
// float32.
TEST_CASE("causal_attention of 16 bits is the plain formula", "[ops]") {
  const std::vector<CausalCase> cases{
      {.N = 2, .H = 2, .G = 1, .D = 64, .Tq = 150, .T = 150},
      {.N = 1, .H = 2, .G = 2, .D = 24, .Tq = 70, .T = 131},
      {.N = 1, .H = 2, .G = 1, .D = 128, .Tq = 100, .T = 100, .lengths = {7, 69, 24}},
      {.N = 1, .H = 1, .G = 1, .D = 80, .Tq = 40, .T = 70},
      {.N = 1, .H = 2, .G = 1, .D = 16, .Tq = 210, .T = 210, .lengths = {17, 1, 100, 92}},
      {.N = 1, .H = 1, .G = 1, .D = 20, .Tq = 40, .T = 40},
      {.N = 1, .H = 1, .G = 1, .D = 136, .Tq = 40, .T = 40}};
  for (const CausalCase& c : cases)
    for (const DType dtype : {DType::f16, DType::bf16})
      for (const bool adds : {false, true}) {
        if (reduced() && adds == (dtype == DType::f16)) continue;
        check_16_bits(c, dtype, adds);
      }
}

// Head sizes that fill a part of a tile's channels, one row, and rows one short of and one beyond
// one tile and two. The order in which the runner's threads come changes from case to case.
TEST_CASE("causal_attention of 16 bits at the edges of tiles is the plain formula", "[ops]") {
  int order = 0;
  for (const size_t D : {72, 96})
    for (const size_t T : {1, 63, 65, 129}) {
      const bool is_whole = D == 72;  // else the rows end within a longer sequence
      const auto parts = static_cast<int32_t>(T / 3);
      std::vector<int32_t> lengths;
      if (T > 2) lengths = {parts, 1, static_cast<int32_t>(T) - parts - 1};
      const CausalCase c{.N = 1,
                         .H = T == 65 ? 2u : 1u,
                         .G = 1,
                         .D = D,
                         .Tq = T,
                         .T = is_whole ? T : T + 7,
                         .lengths = is_whole ? lengths : std::vector<int32_t>{}};
      set_thread_order(++order);
      check_16_bits(c, order % 2 ? DType::bf16 : DType::f16, order % 4 < 2);
    }
  set_thread_order(0);
}

// On cuda the heads of a group are cut into parts (detail/causal_attention_kernels.h, HeadParts): 8
// or 4 of one head each, or 7 heads into 5.
TEST_CASE("causal_attention of groups of heads is the plain formula in any order of threads",
          "[ops]") {
  for (const int order : {1, 2, 3}) {
    set_thread_order(order);
    check_16_bits({.N = 1, .H = 16, .G = 2, .D = 16, .Tq = 65, .T = 65, .lengths = {40, 25}},
                  DType::bf16, order == 2);
    check_16_bits({.N = 2, .H = 8, .G = 1, .D = 72, .Tq = 1, .T = 63}, DType::f16, order == 1);
  }
  check_16_bits({.N = 2, .H = 8, .G = 2, .D = 40, .Tq = 66, .T = 70}, DType::f16, true);
  check_16_bits({.N = 52, .H = 14, .G = 2, .D = 8, .Tq = 2, .T = 3}, DType::bf16, false);
  set_thread_order(0);
}

// Without a factor of their own, gradients of scores would be beyond the range of half, or lose
// bits below it.
TEST_CASE("causal_attention of 16 bits takes any scale of dy", "[ops]") {
  const CausalCase c{
      .N = 1, .H = 2, .G = 1, .D = 64, .Tq = 150, .T = 150, .lengths = {17, 1, 100, 32}};
  for (const DType dtype : {DType::f16, DType::bf16})
    for (const double scale : {0x1p-14, 0x1p12}) check_scale_of_dy(c, dtype, scale);
}

// Tensor cores need operands at multiples of 16 bytes.
TEST_CASE("causal_attention of 16 bits takes operands at any address", "[ops]") {
  const CausalCase c{.N = 1, .H = 2, .G = 1, .D = 16, .Tq = 20, .T = 20};
  for (const Operand displaced :
       {Operand::q, Operand::k, Operand::v, Operand::dy, Operand::dq, Operand::dk, Operand::dv})
    for (const bool adds : {false, true}) check_16_bits(c, DType::bf16, adds, displaced);
}

// The documents end within tiles and blocks, and the last case's first queries begin within one.
TEST_CASE("causal_attention keeps NaN and infinity within their document", "[ops]") {
  const CausalCase whole{
      .N = 1, .H = 2, .G = 1, .D = 16, .Tq = 75, .T = 75, .lengths = {9, 40, 2, 24}};
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    check_isolated(whole, dtype, 24);
    if (!reduced()) check_isolated(whole, dtype, 49);
  }
  check_isolated({.N = 1, .H = 1, .G = 1, .D = 5, .Tq = 20, .T = 20, .lengths = {7, 13}},
                 DType::f64, 3);
  check_isolated({.N = 1, .H = 1, .G = 1, .D = 72, .Tq = 20, .T = 40, .lengths = {25, 15}},
                 DType::f16, 22);
  check_isolated({.N = 1, .H = 1, .G = 1, .D = 20, .Tq = 20, .T = 40, .lengths = {25, 15}},
                 DType::bf16, 30);
}

TEST_CASE("causal_attention does not depend on the threads", "[ops]") {
  for (const CausalCase& c : {CausalCase{.N = 1, .H = 2, .G = 1, .D = 16, .Tq = 200, .T = 200},
                              CausalCase{.N = 1, .H = 3, .G = 3, .D = 4, .Tq = 100, .T = 100}}) {
    Values results[3];
    for (const int count : {1, 2, 3}) {
      const ThreadScope threads(count);
      set_thread_order(count - 1);
      const Tensor qkv =
          require_grad(tensor_with(random_values(c.packed(), 1), c.packed(), DType::f32));
      const Tensor y = causal_attention(qkv, c.heads());
      Values& all = results[count - 1];
      all = to_doubles(y);
      backward_of_sum(y);
      for (const double g : to_doubles(grad(qkv))) all.push_back(g);
    }
    set_thread_order(0);
    REQUIRE(results[0] == results[1]);
    REQUIRE(results[0] == results[2]);
  }
}

TEST_CASE("causal_attention computes the gradients that are wanted", "[ops]") {
  const CausalCase c{.N = 1, .H = 2, .G = 1, .D = 2, .Tq = 3, .T = 4};
  check_wanted_gradients(c.shapes(), [&](const Tensor& q, const Tensor& k, const Tensor& v) {
    return causal_attention(q, k, v, c.heads());
  });
}

TEST_CASE("causal_attention keeps no matrix of tokens", "[ops]") {
  constexpr int64_t H = 12, D = 64, T = 2048, element = 4;
  for (const Device device : {Device::meta, Device::meta_cuda}) {
    const Tensor qkv = require_grad(Tensor::empty({1, T, 3 * H * D}, DType::f32, device));
    const auto bytes = [&] { return int64_t(ledger(device).current().total()); };
    ledger(device).reset_peak();
    const int64_t before = bytes();
    const Tensor y = causal_attention(qkv, {H, H, D});
    // The op keeps y and L.
    REQUIRE(bytes() - before == H * D * T * element + H * T * element);
    backward_of_sum(y);
    // Besides y, dy and dqkv, backward takes less memory than qkv. The plain formula takes H * T *
    // T elements.
    const int64_t most = int64_t(ledger(device).peak().total()) - before;
    REQUIRE(most - 5 * H * D * T * element <= 3 * H * D * T * element);
  }
}

TEST_CASE("causal_attention refuses what does not fit", "[ops]") {
  const MetaScope on(GENERATE(false, true));
  const auto make = [](const Shape& shape, DType dtype = DType::f32) {
    return Tensor::full(shape, 1, dtype, test_device());
  };
  const AttentionHeads heads{4, 2, 3};
  const Tensor q = make({2, 3, 12}), k = make({2, 5, 6});
  REQUIRE_ERROR(causal_attention(q, k, k, {4, 3, 3}), "4 heads of queries in 3 groups, of size 3");
  REQUIRE_ERROR(causal_attention(q, k, k, {4, 2, 2}), "q [2, 3, 12], k [2, 5, 6] and v [2, 5, 6]");
  REQUIRE_ERROR(causal_attention(q, k, make({2, 4, 6}), heads), "v [2, 4, 6]");
  REQUIRE_ERROR(causal_attention(make({2, 6, 12}), k, k, heads), "Tq <= T");
  REQUIRE_ERROR(causal_attention(make({1, 3, 12}), k, k, heads), "q [1, 3, 12]");
  REQUIRE_ERROR(causal_attention(q, k, make({2, 5, 6}, DType::f64), heads), "f64");
  REQUIRE_ERROR(causal_attention(make({2, 5, 25}), heads), "qkv [2, 5, 25]");
  REQUIRE_ERROR(causal_attention(make({2, 0, 24}), heads), "not empty");
  REQUIRE_ERROR(causal_attention(q, k, k, heads, ones({2, 3})), "positions f32 [2, 3]");
  REQUIRE_ERROR(causal_attention(q, k, k, heads, indices({0, 0}, q)), "expected i32 [2, 3]");
}

TEST_CASE("causal_attention refuses wrong positions, or gives NaN where no kernel can throw",
          "[ops]") {
  const AttentionHeads heads{1, 1, 2};
  const Tensor q = require_grad(ones({1, 2, 2})), k = ones({1, 3, 2});
  for (const int32_t bad : {-1, 2}) {
    const Tensor positions = indices({bad, 2}, q).reshape({1, 2});
    if (test_device() == Device::cpu) {
      REQUIRE_ERROR(causal_attention(q, k, k, heads, positions),
                    fmt::format("position {} of query 0 in row 0: expected 0 to 1", bad));
      continue;
    }
    zero_grad(q);
    const Tensor y = causal_attention(q, k, k, heads, positions);
    backward_of_sum(y);
    for (const Values& values : {to_doubles(y), to_doubles(grad(q))})
      for (size_t i = 0; i < values.size(); ++i) REQUIRE(std::isnan(values[i]) == (i < 2));
  }
}

}  // namespace accrue::test
