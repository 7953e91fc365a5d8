#include "kernels/linear_cross_entropy.h"

#include <algorithm>
#include <cmath>

#include "core/autograd.h"
#include "core/ledger.h"
#include "core/profile.h"
#include "kernels/arithmetic.h"
#include "kernels/cross_entropy.h"
#include "kernels/judged.h"
#include "kernels/linear.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"
#include "tests/support/op_table.h"
#include "tests/support/random_head.h"
#include "tests/support/thread_scope.h"

namespace accrue::test {
namespace {

Op head_op(std::string name, const Head& head, bool judges, int64_t chunk_rows) {
  return {.name = std::move(name),
          .inputs = {{2, head.rows() / 2, static_cast<int64_t>(head.E)}, head.w_shape()},
          .run =
              [=](const auto& in) {
                const Tensor labels = indices(head.labels, in[0]).reshape({2, head.rows() / 2});
                return linear_cross_entropy(in[0], in[1], labels,
                                            judges ? judged_weight(labels) : Tensor(), chunk_rows,
                                            0, head.own);
              },
          .reference = [=](const auto& in) { return Values{head.loss(in[0], in[1])}; },
          .depth = double(head.E + head.V + 16),
          .low = -2,
          .high = 2,
          .parameters = {1}};
}

// The same op with the rows in two pieces.
Op pieces_of_head_op(const Head& head, int64_t begin) {
  const int64_t T = head.rows(), E = static_cast<int64_t>(head.E);
  Op op = head_op("linear_cross_entropy of two pieces", head, true, 0);
  op.inputs = {{1, begin, E}, {1, T - begin, E}, head.w_shape()};
  op.run = [=](const auto& in) {
    const Tensor labels = indices(head.labels, in[0]);
    const Tensor judged = judged_weight(labels.reshape({1, T}));
    const auto loss_of = [&](size_t piece, int64_t from, int64_t to) {
      return linear_cross_entropy(in[piece], in[2], labels.slice(from, to).reshape({1, to - from}),
                                  judged, 0, T);
    };
    return add(loss_of(0, 0, begin), loss_of(1, begin, T));
  };
  op.reference = [=](const auto& in) {
    Values x = in[0];
    x.insert(x.end(), in[1].begin(), in[1].end());
    return Values{head.loss(x, in[2])};
  };
  op.parameters = {2};
  op.roundings = 2;
  return op;
}

Outcome differentiate(const Tensor& loss, const Tensor& x, const Tensor& w) {
  const double value = loss.item();
  backward(loss);
  return {value, to_doubles(grad(x)), to_doubles(grad(w))};
}

}  // namespace

TEST_CASE("linear_cross_entropy", "[ops]") {
  const Head head = random_head(10, 7, 3);
  check_op(head_op("linear_cross_entropy", head, false, 0));
  check_op(head_op("linear_cross_entropy in chunks", head, false, 4));
}

// On cuda rows of 85 logits are padded to 128, and the last logits do not fill a vector.
TEST_CASE("linear_cross_entropy of rows that are not a multiple of the alignment", "[ops]") {
  Head head = random_head(6, 85, 3);
  check_op(head_op("linear_cross_entropy of 85 logits", head, false, 4));
  head.labels[1] = not_judged;
  check_op(head_op("linear_cross_entropy of some rows of 85 logits", head, true, 4));
  head = random_head(66, 66, 2);
  for (size_t r = 0; r < 66; ++r) head.labels[r] = static_cast<int32_t>((r + 65) % 66);
  head.own = OwnLogit::left_out;
  check_op(head_op("linear_cross_entropy of 66 logits without own ones", head, false, 32));
}

TEST_CASE("linear_cross_entropy of what is judged", "[ops]") {
  Head head = random_head(10, 7, 3);
  for (const size_t r : {0, 3, 4, 9}) head.labels[r] = not_judged;
  check_op(head_op("linear_cross_entropy of some rows", head, true, 0));
  check_op(head_op("linear_cross_entropy of some rows in chunks", head, true, 4));
  check_op(pieces_of_head_op(head, 6));
  check_op(pieces_of_head_op(head, 1));  // the first piece has no judged row
  std::ranges::fill(head.labels, not_judged);
  check_op(head_op("linear_cross_entropy of no rows", head, true, 4));
  check_op(
      head_op("linear_cross_entropy of rows that are all judged", random_head(10, 7, 3), true, 3));
}

TEST_CASE("linear_cross_entropy of rows that leave their own logit out", "[ops]") {
  Head head{10, 3, {1, 0, 3, 2, 5, 4, 7, 6, 9, 8}, OwnLogit::left_out};
  check_op(head_op("linear_cross_entropy without own logits", head, false, 0));
  check_op(head_op("linear_cross_entropy without own logits in chunks", head, false, 4));
  head.labels[2] = head.labels[7] = not_judged;
  check_op(head_op("linear_cross_entropy of some rows without own logits", head, true, 4));
  REQUIRE_ERROR(linear_cross_entropy(ones({2, 3}), ones({4, 3}), indices({1, 0}, ones({1})), {}, 0,
                                     0, OwnLogit::left_out),
                "expected equal numbers of rows");
}

TEST_CASE("linear_cross_entropy is linear and cross_entropy", "[ops]") {
  const Head head = random_head(53, 301, 5);
  const Values xs = uniform(53 * 5, 1), ws = uniform(301 * 5, 2);
  const auto run = [&](auto&& loss_of) {
    const Tensor x = leaf<double>(xs, head.x_shape()), w = leaf<double>(ws, head.w_shape());
    return differentiate(loss_of(x, w, indices(head.labels, x)), x, w);
  };
  const Outcome expected = run([](const auto& x, const auto& w, const auto& labels) {
    return cross_entropy(linear(x, w, {}), labels);
  });
  for (const int64_t chunk_rows : {0, 16, 17, 1}) {
    const Outcome outcome = run([=](const auto& x, const auto& w, const auto& labels) {
      return linear_cross_entropy(x, w, labels, {}, chunk_rows);
    });
    REQUIRE(outcome.loss == Approx(expected.loss).epsilon(1e-13));
    REQUIRE(largest_difference(outcome.dx, expected.dx) < 1e-13);
    REQUIRE(largest_difference(outcome.dw, expected.dw) < 1e-13);
  }
}

TEST_CASE("linear_cross_entropy of many logits does not depend on the threads", "[ops]") {
  Head head = random_head(70, 3001, 4);
  for (size_t r = 0; r < head.labels.size(); r += 3) head.labels[r] = not_judged;
  const Values xs = uniform(70 * 4, 1), ws = uniform(3001 * 4, 2);
  const auto run = [&](int threads) {
    const ThreadScope scope(threads);
    set_thread_order(threads);
    const Tensor x = leaf(xs, head.x_shape()), w = leaf(ws, head.w_shape());
    const Tensor labels = indices(head.labels, x);
    return differentiate(linear_cross_entropy(x, w, labels, judged_weight(labels), 16), x, w);
  };
  const Outcome alone = run(1);
  // Logits are sums of 4 terms. Sums are runs of 256 exponentials, each exact to 3 units.
  REQUIRE(alone.loss == Approx(head.loss(xs, ws)).epsilon(300 * 0x1p-24));
  REQUIRE(run(2) == alone);
  REQUIRE(run(3) == alone);
  const auto dx_of_frozen = [&](int threads) {
    const ThreadScope scope(threads);
    set_thread_order(threads);
    const Tensor x = leaf(xs, head.x_shape()), labels = indices(head.labels, x);
    backward(linear_cross_entropy(x, leaf(ws, head.w_shape()).detach(), labels,
                                  judged_weight(labels), 16));
    return to_doubles(grad(x));
  };
  const Values dx = dx_of_frozen(1);
  REQUIRE(dx_of_frozen(2) == dx);
  REQUIRE(dx_of_frozen(3) == dx);
}

// On cuda a block goes through such a row in several tiles. x is positive, so that nothing cancels
// in dw but in the rows of the labels.
TEST_CASE("linear_cross_entropy of rows of several tiles", "[ops]") {
  const Head head{20003, 3, {0, 8195, 20002, 12345}};
  Values xs = uniform(4 * 3, 1), ws = uniform(20003 * 3, 2);
  for (double& x : xs) x = (std::round(8 * x) + 9) / 16;  // exact in every type
  for (double& w : ws) w = std::round(16 * w) / 16;
  const auto run = [&]<class T>(T) {
    const Tensor x = leaf<T>(xs, head.x_shape()), w = leaf<Wide<T>>(ws, head.w_shape());
    if (sizeof(T) == 2) w.variable()->copy = leaf<T>(ws, head.w_shape()).detach();
    return differentiate(linear_cross_entropy(x, w, indices(head.labels, x)), x, w);
  };
  const Outcome expected = run(double());
  REQUIRE(expected.loss == Approx(head.loss(xs, ws)).epsilon(1e-12));
  const auto agrees = [&](const Outcome& outcome, double unit) {
    REQUIRE(outcome.loss == Approx(expected.loss).epsilon(0x1p-20));
    REQUIRE(largest_difference(outcome.dx, expected.dx) < 2 * unit);
    int64_t wrong = 0;
    for (size_t v = 0; v < head.V; ++v) {
      const bool is_label = std::ranges::count(head.labels, int32_t(v)) > 0;
      for (size_t i = v * head.E; i < (v + 1) * head.E; ++i)
        wrong +=
            outcome.dw[i] != Approx(expected.dw[i]).epsilon(4 * unit).margin(is_label ? unit : 0);
    }
    REQUIRE(wrong == 0);
  };
  agrees(run(float()), 0x1p-18);
  agrees(run(BFloat16()), 0x1p-9);
}

TEST_CASE("linear_cross_entropy keeps the digits of a small loss", "[ops]") {
  // The label's logit is 20 above the other logits, except one that is 19 below it.
  constexpr size_t V = 40;
  Values ws(V, 0);
  ws[33] = 1;
  ws[5] = 0.05;
  const Tensor x = leaf({20}, {1, 1}), w = leaf(ws, {V, 1});
  const Outcome outcome = differentiate(linear_cross_entropy(x, w, indices({33}, x)), x, w);
  const double others = 38 * std::exp(-20.0) + std::exp(-19.0);
  // The rounding of the logits causes the error of the exponentials.
  REQUIRE(outcome.loss == Approx(std::log1p(others)).epsilon(32 * 0x1p-23));
  REQUIRE(outcome.dw[33] == Approx(-20 * others / (1 + others)).epsilon(32 * 0x1p-23));
}

TEST_CASE("linear_cross_entropy takes a seed, and gradients of one input", "[ops]") {
  const bool in_backward = GENERATE(false, true);
  const Head head = random_head(20, 9, 3);
  const Values xs = uniform(20 * 3, 1), ws = uniform(9 * 3, 2);
  const Tensor x = leaf(xs, head.x_shape()), w = leaf(ws, head.w_shape());
  const auto loss_of = [&] {
    const Tensor labels = indices(head.labels, x);
    return in_backward ? linear_cross_entropy_in_backward(x, w, labels, {}, 6)
                       : linear_cross_entropy(x, w, labels, {}, 6);
  };
  const auto number = [](double value) {
    return Tensor::full({}, value, DType::f64, test_device());
  };
  const auto begin = [&](const Tensor& loss) {
    REQUIRE(takes_seed(loss));
    const Tensor scale = number(2), loss_sum = number(100), weight_sum = number(10);
    zero_grad(x);
    zero_grad(w);
    backward(loss, LossSeed{.scale = scale.view(),
                            .weight = {.on_host = 3},
                            .of = 12,
                            .loss = loss.future_view(),
                            .loss_sum = loss_sum.view(),
                            .weight_sum = weight_sum.view(),
                            .beta = 1});
    REQUIRE(loss_sum.item() == 100 + 3 * loss.item());
    REQUIRE(weight_sum.item() == 13);
  };
  zero_grad(x);
  zero_grad(w);
  backward(loss_of(), 0.5);
  const Values dx = to_doubles(grad(x)), dw = to_doubles(grad(w));
  begin(loss_of());
  REQUIRE(to_doubles(grad(x)) == dx);
  REQUIRE(to_doubles(grad(w)) == dw);
  // The same holds if x is frozen between forward and backward.
  const Tensor loss_of_w = loss_of();
  x.variable()->frozen = true;
  begin(loss_of_w);
  REQUIRE(to_doubles(grad(w)) == dw);
  const Tensor loss_of_none = loss_of();
  w.variable()->frozen = true;
  REQUIRE_FALSE(takes_seed(loss_of_none));
  x.variable()->frozen = false;
  begin(loss_of());
  REQUIRE(to_doubles(grad(x)) == dx);
}

TEST_CASE("linear_cross_entropy of a frozen head computes each logit once", "[ops]") {
  const Values xs = uniform(20 * 3, 1), ws = uniform(20 * 3, 2);
  for (const auto& [own, judges] :
       {std::pair(OwnLogit::counts, false), std::pair(OwnLogit::counts, true),
        std::pair(OwnLogit::left_out, false)}) {
    Head head = random_head(20, 20, 3);
    if (judges) head.labels[2] = head.labels[7] = head.labels[19] = not_judged;
    // Two backwards: the second one adds to dx.
    const auto find = [&, own = own, judges = judges](bool is_frozen) {
      const Tensor x = leaf<double>(xs, head.x_shape()), w = leaf<double>(ws, head.w_shape());
      const Tensor labels = indices(head.labels, x);
      Profile profile(test_device(), 0);
      for (const double seed : {0.3, -0.7})
        backward(linear_cross_entropy(x, is_frozen ? w.detach() : w, labels,
                                      judges ? judged_weight(labels) : Tensor(), 6, 0, own),
                 seed);
      profile.stop();
      double flops = 0;
      for (const Profile::Row& row : profile.rows()) flops += row.work.flops;
      return std::pair(to_doubles(grad(x)), flops);
    };
    const auto [dx, flops] = find(false);
    const auto [dx_alone, flops_alone] = find(true);
    const bool all = !judges || test_device() != Device::cpu;
    const double rows = all ? 20 : 17;
    REQUIRE(flops_alone == 2 * 2 * 2 * rows * 20 * 3);
    REQUIRE(flops > flops_alone * 1.5);
    for (size_t i = 0; i < dx.size(); ++i)
      REQUIRE(dx_alone[i] == Approx(dx[i]).epsilon(0).margin(8 * 0x1p-52));
  }
}

TEST_CASE("linear_cross_entropy never holds more logits than one chunk", "[ops]") {
  constexpr int64_t rows = 1024, V = 50257, E = 768;
  // 64 MiB have room for 333 rows, or 320 in multiples of 16, so there are four chunks. In 16 bits,
  // with a separate d, they have room for 222 rows, or 208, so there are five chunks. 192 MiB have
  // room for 1001 rows, or 992, so there are two chunks.
  const auto rows_of_chunk = [](int64_t of, int64_t logits, DType dtype, Device device,
                                HeadPass pass = HeadPass::adds_to_dw) {
    return chunk_rows_for(of, logits, dtype, device, pass);
  };
  REQUIRE(rows_of_chunk(rows, V, DType::f32, Device::cpu) == 256);
  REQUIRE(rows_of_chunk(rows, V, DType::f32, Device::cpu, HeadPass::reads_w_once) == 160);
  REQUIRE(rows_of_chunk(rows, V, DType::bf16, Device::cpu) == 208);
  REQUIRE(rows_of_chunk(100, V, DType::f32, Device::cpu) == 100);
  REQUIRE(rows_of_chunk(100, 1 << 20, DType::f32, Device::cpu) == 64);
  REQUIRE(rows_of_chunk(40, 1 << 20, DType::f32, Device::cpu) == 40);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    REQUIRE(rows_of_chunk(rows, V, dtype, Device::cuda) == 512);
    REQUIRE(rows_of_chunk(4 * rows, V, dtype, Device::cuda) == 832);
    REQUIRE(rows_of_chunk(rows, V, dtype, Device::cuda, HeadPass::reads_w) == 256);
    REQUIRE(rows_of_chunk(rows, V, dtype, Device::cuda, HeadPass::reads_w_once) == 160);
  }
  struct Case {
    Device device;
    DType dtype;
    size_t bytes;
  };
  // The logits, on cuda in rows padded to multiples of 64 and with d over them; d in 16 bits on the
  // cpu; for each row three numbers and a place; and the gathered rows, or the products' workspace.
  const size_t gathered = rows * 4 + E * 4 * 256, workspace = 32 << 20;
  for (const auto& [device, dtype, bytes] :
       {Case{Device::meta, DType::f32, 256 * V * 4 + gathered},
        Case{Device::meta, DType::bf16, 208 * V * (4 + 2) + gathered},
        Case{Device::meta_cuda, DType::f32, 512 * 50304 * 4 + workspace},
        Case{Device::meta_cuda, DType::bf16, 512 * 50304 * 4 + workspace}}) {
    const Tensor x = require_grad(Tensor::empty({2, rows / 2, E}, dtype, device)),
                 w = require_grad(Tensor::empty({V, E}, DType::f32, device)),
                 labels = Tensor::empty({2, rows / 2}, DType::i32, device),
                 judged = judged_weight(labels);
    if (dtype != DType::f32) w.variable()->copy = Tensor::empty(w.shape(), dtype, device);
    claim_grad(x);
    claim_grad(w);
    Ledger& memory = ledger(device);
    const size_t before = memory.current().total();
    memory.reset_peak();
    backward(linear_cross_entropy(x, w, labels, judged));
    REQUIRE(memory.peak().total() - before <= bytes + rows * (2 * 4 + 8) + 2 * 64);
    memory.reset_peak();
    backward(linear_cross_entropy_in_backward(x, w, labels, judged));
    REQUIRE(memory.peak().total() - before <= bytes + rows * 8 + 2 * 64);
  }
}

TEST_CASE("linear_cross_entropy writes dx over x", "[ops]") {
  const Tensor leaf_x = Tensor::empty({64, 1000}, DType::f32, Device::meta),
               w = require_grad(Tensor::empty({8, 1000}, DType::f32, Device::meta));
  claim_grad(w);
  Tensor x = Tensor::empty({64, 1000}, DType::f32, Device::meta);
  record("source", x, {Edge(require_grad(leaf_x))}, [](Tensor&) {});
  Ledger& memory = ledger(Device::meta);
  const size_t before = memory.current().total();
  memory.reset_peak();
  const Tensor loss = linear_cross_entropy(x, w, Tensor::empty({64}, DType::i32, Device::meta));
  x.reset();
  backward(loss);
  REQUIRE(memory.peak().total() - before < x.bytes() + 64 * (8 * 4 + 8 + 16) + 1024);
}

// cuBLASLt's fast kernels want extents of multiples of 16 bytes, and GPT-2 has 50257 tokens. Only
// the runner counts the products for which they cannot be chosen.
TEST_CASE("linear_cross_entropy gives the products of any vocabulary to tensor cores", "[ops]") {
  constexpr int64_t E = 16;
  for (const auto& [rows, V] : {std::pair(20, 50257), std::pair(40, 66), std::pair(9, 71)}) {
    const Head head = random_head(size_t(rows), size_t(V), E);
    const auto half = [](const Shape& shape) {
      return Tensor::full(shape, 0.5, DType::bf16, test_device());
    };
    const Tensor w = require_grad(Tensor::full(head.w_shape(), 0.5, DType::f32, test_device()));
    w.variable()->copy = half(head.w_shape());
    const Tensor x = require_grad(half(head.x_shape())), labels = indices(head.labels, x);
    const Tensor score = Tensor::full({3}, 0, DType::f64, test_device());
    const auto run = [&] {
      backward(linear_cross_entropy(x, w, labels, {}, 16));
      add_linear_score(score, x, w, labels, 16);
    };
    REQUIRE(slow_products_of(run) == 0);
    zero_grad(x);
    zero_grad(w);
    // For a chunk of forward or of the score: a product and the softmax. For one of backward: the
    // product again, d, and for each of dw and dx a product and the rest; the last chunk's logits
    // are still there. And the mean, the seed and the score.
    const int64_t chunks = (rows + 15) / 16;
    if (on_runner()) REQUIRE(launches_of(run) == chunks * (2 + 2 + 6) - 1 + 3);
    // In one pass: a product, the softmax with d, and four for dw and dx. And the seed and the
    // mean.
    const auto in_one = [&] { backward(linear_cross_entropy_in_backward(x, w, labels, {}, 16)); };
    REQUIRE(slow_products_of(in_one) == 0);
    if (on_runner()) REQUIRE(launches_of(in_one) == chunks * 6 + 2);
  }
}

TEST_CASE("add_linear_score", "[ops]") {
  Head head = random_head(41, 23, 4);
  for (size_t r = 0; r < head.labels.size(); r += 4) head.labels[r] = not_judged;
  const Values xs = uniform(41 * 4, 1), ws = uniform(23 * 4, 2);
  const Tensor x = leaf(xs, head.x_shape()), w = leaf(ws, head.w_shape());
  // Makes the answer of every second judged row right.
  const Values logits = to_doubles(linear(x, w, {}));
  double right = 0;
  for (size_t r = 0; r < head.labels.size(); ++r) {
    if (head.labels[r] == not_judged) continue;
    const auto row = logits.begin() + static_cast<ptrdiff_t>(r * head.V);
    const auto best = static_cast<int32_t>(std::max_element(row, row + 23) - row);
    if (r % 2 == 0) head.labels[r] = best;
    right += head.labels[r] == best;
  }
  const Values losses = head.losses(xs, ws);
  double sum = 0;
  for (const double loss : losses) sum += loss;
  for (const int64_t chunk_rows : {0, 16}) {
    const Tensor score = Tensor::full({3}, 100, DType::f64, test_device());
    add_linear_score(score, x, w, indices(head.labels, x), chunk_rows);
    const Values scores = to_doubles(score);
    REQUIRE(scores[0] == Approx(100 + sum).epsilon(64 * 0x1p-24));
    REQUIRE(scores[1] == 100 + double(losses.size()));
    REQUIRE(scores[2] == 100 + right);
  }
}

TEST_CASE("add_linear_score takes the first of equal logits, and no NaN", "[ops]") {
  const Tensor w = leaf({1, 2, 2, 0}, {4, 1});
  const auto right = [&](double x, int32_t label) {
    const Tensor score = Tensor::full({3}, 0, DType::f64, test_device());
    const Tensor row = leaf({x}, {1, 1});
    add_linear_score(score, row, w, indices({label}, row));
    return to_doubles(score)[2];
  };
  REQUIRE(right(1, 1) == 1);
  REQUIRE(right(1, 2) == 0);
  REQUIRE(right(-1, 3) == 1);
  REQUIRE(right(NAN, 0) == 0);
  REQUIRE_ERROR(add_linear_score(ones({3}), w.reshape({4, 1}), w, indices({0, 0, 0, 0}, w)),
                "expected score f64 [3]");
}

TEST_CASE("linear_cross_entropy refuses what does not fit", "[ops]") {
  const MetaScope on(GENERATE(false, true));
  const Tensor x = leaf({1, 2, 3, 4}, {2, 2}), w = leaf({1, 2, 3, 4, 5, 6}, {3, 2});
  const Tensor labels = indices({0, 2}, x);
  REQUIRE_ERROR(linear_cross_entropy(x, leaf({1, 2, 3}, {3, 1}), labels),
                "x f32 [2, 2], w [3, 1] and labels i32 [2]");
  REQUIRE_ERROR(linear_cross_entropy(x, w, indices({0, 2, 1}, x)), "labels i32 [3]");
  REQUIRE_ERROR(linear_cross_entropy(x, w, ones({2})), "labels f32 [2]");
  REQUIRE_ERROR(linear_cross_entropy(x, w, labels, ones({1})), "judged is f32 [1]");
  REQUIRE_ERROR(linear_cross_entropy(x, w, labels, {}, -1), "-1 rows in a chunk");
  const auto in_bf16 = [](const Shape& shape) {
    return Tensor::full(shape, 1, DType::bf16, test_device());
  };
  REQUIRE_ERROR(linear_cross_entropy(in_bf16({2, 2}), require_grad(in_bf16({3, 2})), labels),
                "expected a parameter in float32");
  if (is_meta(test_device())) return;  // which knows no values
  for (const int32_t bad : {3, -1, -2}) {
    const Tensor wrong = indices({0, bad}, x);
    if (test_device() == Device::cpu) {
      const std::string expected = fmt::format("label {} of row 1 is outside [0, 3)", bad);
      REQUIRE_ERROR(linear_cross_entropy(x, w, wrong), expected);
      REQUIRE_ERROR(linear_cross_entropy_in_backward(x, w, wrong), expected);
      continue;
    }
    for (const bool in_backward : {false, true}) {
      zero_grad(x);
      zero_grad(w);
      const Tensor loss = in_backward ? linear_cross_entropy_in_backward(x, w, wrong, {}, 1)
                                      : linear_cross_entropy(x, w, wrong, {}, 1);
      backward(loss);
      REQUIRE(std::isnan(loss.item()));
      const Values dx = to_doubles(grad(x));
      for (size_t i = 0; i < 4; ++i) REQUIRE(std::isnan(dx[i]) == (i >= 2));
      for (const double dw : to_doubles(grad(w))) REQUIRE(std::isnan(dw));
    }
  }
  if (test_device() == Device::cpu)
    REQUIRE_ERROR(linear_cross_entropy(x, w, indices({0, -2}, x), judged_weight(labels)),
                  "label -2 of row 1 is outside [0, 3)");
}

}  // namespace accrue::test
