// Recomputed segments give the same bits with less memory, whatever a segment contains.

#include <cmath>

#include "core/ceil_div.h"
#include "core/profile.h"
#include "core/random.h"
#include "core/recompute_several.h"
#include "kernels/arithmetic.h"
#include "kernels/cross_entropy.h"
#include "kernels/dropout.h"
#include "kernels/elementwise.h"
#include "kernels/linear.h"
#include "kernels/losses.h"
#include "kernels/norm.h"
#include "kernels/pointwise.h"
#include "layers/layers.h"
#include "tests/core/sum.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"

namespace accrue::test {
namespace {

constexpr int64_t batch = 6, classes = 3;

// Convolutions, both kinds of norm, dropout, pooling and a perceptron: five blocks.
std::unique_ptr<Sequential> five_blocks() {
  auto model = std::make_unique<Sequential>();
  model->add<Conv2d>(1, 4, 3, Conv2dShape{.padding = 1});
  model->add<BatchNorm>(4);
  model->add<Relu>();
  model->add<Dropout>(0.3, 1);
  model->add<Conv2d>(4, 4, 3, Conv2dShape{.padding = 1});
  model->add<GroupNorm>(2, 4);
  model->add<Gelu>();
  model->add<MaxPool2d>(Pool2dShape{2});
  model->add<Flatten>();
  model->add<Linear>(4 * 9, 8, Activation::relu);
  model->add<Dropout>(0.5, 2);
  model->add<Linear>(8, 8, Activation::relu);
  model->add<Linear>(8, classes);
  return model;
}

struct Result {
  std::vector<double> gradients, buffers;
  bool operator==(const Result&) const = default;
};

// Adds the gradients of three micro-batches.
Result train_once(DType dtype, Recompute recompute) {
  const auto model = five_blocks();
  const Parameters parameters = place(*model, dtype, test_device(), 7);
  for (int i = 0; i < 3; ++i) {
    RandomStream random(11, static_cast<uint64_t>(i));
    const Tensor x = Tensor::empty({batch, 1, 6, 6}, dtype, Device::cpu, Category::data);
    dispatch_wide(dtype, [&]<class T>() {
      for (T& value : x.span<T>()) value = random.normal();
    });
    std::vector<int32_t> labels, samples;
    for (int32_t n = 0; n < batch; ++n) {
      labels.push_back(n % classes);
      samples.push_back(static_cast<int32_t>(batch) * i + n);
    }
    const Pass pass{.seed = 5,
                    .samples = Tensor::from(samples, {batch}, test_device()),
                    .recompute = recompute};
    backward(cross_entropy((*model)(x.to(test_device()), pass),
                           Tensor::from(labels, {batch}, test_device())));
  }
  return {to_doubles(parameters.gradients()), to_doubles(parameters.buffers())};
}

Tensor row(std::vector<double> values) {
  const auto n = static_cast<int64_t>(values.size());
  return Tensor::from(values, {1, n}, test_device(), Category::activations);
}

}  // namespace

TEST_CASE("recomputed gradients and running statistics are the same bits", "[recompute]") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Result kept = train_once(dtype, Recompute::none);
    REQUIRE(train_once(dtype, Recompute::sqrt) == kept);
    REQUIRE(train_once(dtype, Recompute::all) == kept);
  }
}

TEST_CASE("recomputing keeps about 2 sqrt(n) of n layers", "[recompute][memory]") {
  constexpr int64_t layers = 25, width = 32, samples = 64;
  const size_t one = samples * width * sizeof(float);
  const auto peak = [&](Recompute recompute) {
    Sequential model;
    for (int64_t i = 0; i < layers; ++i) {
      model.add<Linear>(width, width);
      model.add<Gelu>();
    }
    const Parameters parameters = place(model, DType::f32, test_device(), 1);
    const Tensor x = Tensor::full({samples, width}, 0.1, DType::f32, test_device(), Category::data);
    const Tensor labels = Tensor::from(std::vector<int32_t>(samples, 1), {samples}, test_device());
    const size_t before = ledger(test_device()).current()[Category::activations];
    ledger(test_device()).reset_peak();
    backward(cross_entropy(model(x, {.recompute = recompute}), labels));
    return ledger(test_device()).peak()[Category::activations] - before;
  };
  // Each layer keeps x and gelu's input: n layers keep 2n tensors.
  REQUIRE(peak(Recompute::none) >= (2 * layers - 1) * one);
  // The inputs of 5 segments, the 2 * 5 tensors of one segment, and the gradients that flow through
  // it.
  REQUIRE(peak(Recompute::sqrt) <= (5 + 2 * 5 + 2) * one);
  // 25 inputs, the tensors of one layer, and the gradients.
  REQUIRE(peak(Recompute::all) <= (layers + 2 + 2) * one);
}

TEST_CASE("a segment runs once in forward and once in backward", "[recompute]") {
  const Tensor x = require_grad(row({1, 2, 3}));
  std::vector<bool> runs;
  const Tensor y = recompute(
      [&](const std::vector<Tensor>& in) {
        runs.push_back(recomputing());
        return mul(in[0], in[0]);
      },
      {x});
  backward(sum(y));
  REQUIRE(runs == std::vector<bool>{false, true});
  REQUIRE(to_doubles(grad(x)) == std::vector<double>{2, 4, 6});
  REQUIRE_FALSE(recomputing());
}

TEST_CASE("the last op of a segment leaves its result out where it is not read",
          "[recompute][memory]") {
  // y = norm(2 x). The tensor between x and y is dropped, also if the segment is within another
  // one.
  const std::vector<double> values{1, -2, 3, 0.5, -1, 4};
  const size_t one = round_up<size_t>(values.size() * sizeof(double), Ledger::alignment);
  std::vector<bool> unread;
  const auto gradient = [&](bool again, bool nested) {
    const Tensor x =
        require_grad(Tensor::from(values, {1, 6}, test_device(), Category::activations));
    const Segment twice = [&](const std::vector<Tensor>& in) {
      REQUIRE_FALSE(result_is_unread());
      return add(in[0], in[0]);
    };
    const LastOp norm = [&](Tensor h) {
      unread.push_back(result_is_unread());
      return layer_norm(h, {}, {});
    };
    const Segment inside = [=](const std::vector<Tensor>& in) {
      return again ? recompute(twice, in, norm) : norm(twice(in));
    };
    const auto square = [](const Tensor& y) { return mul(y, y); };
    const Tensor z = nested ? recompute([=](const auto& in) { return square(inside(in)); }, {x})
                            : square(inside({x}));
    backward(sum(mul(z, x.detach())));
    return to_doubles(grad(x));
  };
  const auto expected = gradient(false, false);
  REQUIRE(gradient(true, false) == expected);
  REQUIRE(unread == std::vector<bool>{false, false, true});
  unread.clear();
  // The runs in order: the outer segment's first; the inner segment's first, within the outer one's
  // second; and the inner segment's second.
  REQUIRE(gradient(true, true) == expected);
  REQUIRE(unread == std::vector<bool>{false, false, true});
  REQUIRE_FALSE(result_is_unread());

  // The meta device: products need no workspace there, which would otherwise decide the peak.
  const auto peak_of_second_run = [&](bool apart) {
    const Tensor x =
        require_grad(Tensor::full({1, 6}, 1, DType::f64, Device::meta, Category::activations));
    const LastOp last = [](Tensor h) { return layer_norm(h, {}, {}); };
    const Segment twice = [](const std::vector<Tensor>& in) { return add(in[0], in[0]); };
    const Tensor loss =
        sum(apart ? recompute(twice, {x}, last)
                  : recompute([&](const auto& in) { return last(twice(in)); }, {x}));
    const size_t before = ledger(Device::meta).current()[Category::activations];
    ledger(Device::meta).reset_peak();
    backward(loss);
    return ledger(Device::meta).peak()[Category::activations] - before;
  };
  REQUIRE(peak_of_second_run(false) == peak_of_second_run(true) + one);
}

TEST_CASE("segments in segments, several inputs, and inputs used elsewhere", "[recompute]") {
  const auto gradients = [](bool again) {
    const Tensor a = require_grad(row({1, -2, 3})), b = require_grad(row({0.5, 4, -1}));
    const auto run = [&](const Segment& segment, const std::vector<Tensor>& inputs) {
      return again ? recompute(segment, inputs) : segment(inputs);
    };
    const Tensor h = gelu(add(a, b));
    const Tensor y = run(
        [&](const std::vector<Tensor>& in) {
          const Tensor inner =
              run([](const std::vector<Tensor>& i) { return gelu(mul(i[0], i[0])); }, {in[1]});
          return mul(add(in[0], inner), in[0]);
        },
        {h, b});
    backward(sum(mul(add(y, h), a)));
    auto result = to_doubles(grad(a));
    for (const double g : to_doubles(grad(b))) result.push_back(g);
    return result;
  };
  REQUIRE(gradients(true) == gradients(false));
}

TEST_CASE("a segment leaves tensors that need no gradient alone", "[recompute]") {
  const Tensor x = require_grad(row({1, 2}));
  const Tensor plain = row({3, 4});
  const Segment square = [](const std::vector<Tensor>& in) { return mul(in[0], in[0]); };
  // Three cases: nothing wants a gradient; NoGrad is in force; the segment returns its input.
  REQUIRE_FALSE(recompute(square, {plain}).variable());
  {
    const NoGrad no_grad;
    REQUIRE_FALSE(recompute(square, {x}).variable());
  }
  const Segment identity = [](const std::vector<Tensor>& in) { return in[0]; };
  backward(sum(recompute(identity, {x})));
  REQUIRE(to_doubles(grad(x)) == std::vector<double>{1, 1});
  // Only a weight inside of the segment wants a gradient.
  const Tensor w = require_grad(row({5, 6}));
  backward(sum(recompute([&](const std::vector<Tensor>& in) { return mul(in[0], w); }, {plain})));
  REQUIRE(to_doubles(grad(w)) == std::vector<double>{3, 4});
  // x is frozen after the forward.
  const Tensor y = recompute(square, {x});
  x.variable()->frozen = true;
  zero_grad(x);
  backward(sum(y));
  REQUIRE_ERROR(grad(x), "has no gradient");
}

TEST_CASE("a segment that fails leaves the engine as it was", "[recompute]") {
  const Tensor x = require_grad(row({1, 2}));
  bool fail_now = true;
  const Segment failing = [&](const std::vector<Tensor>& in) {
    if (fail_now) fail("no memory, say");
    return mul(in[0], in[0]);
  };
  REQUIRE_ERROR(recompute(failing, {x}), "no memory, say");
  fail_now = false;
  const Tensor y = recompute(failing, {x});
  fail_now = true;
  REQUIRE_ERROR(backward(sum(y)), "no memory, say");
  REQUIRE_FALSE(recomputing());
  fail_now = false;
  zero_grad(x);
  backward(sum(recompute(failing, {x})));
  REQUIRE(to_doubles(grad(x)) == std::vector<double>{2, 4});
}

TEST_CASE("a gradient hook sees each leaf once, when nothing more is added", "[recompute][hook]") {
  for (const bool again : {false, true}) {
    for (const auto when : {GradHook::When::kernel, GradHook::When::op}) {
      // w is shared by two layers of one segment and by a third layer outside.
      const Tensor w = require_grad(Tensor::full({2, 2}, 0.5, DType::f64, test_device()));
      const Tensor b = require_grad(Tensor::full({2}, 0.25, DType::f64, test_device()));
      const Tensor unused = require_grad(row({1}));
      const auto layers = [&] {
        const Segment two = [&](const std::vector<Tensor>& in) {
          return linear(linear(in[0], w, b), w, {});
        };
        const Tensor x = row({1, 2});
        return sum(linear(again ? recompute(two, {x}) : two({x}), w, {}));
      };
      backward(layers());
      const auto expected_w = to_doubles(grad(w)), expected_b = to_doubles(grad(b));
      for (const Tensor* leaf : {&w, &b}) {
        zero_grad(*leaf);
        leaf->variable()->grad.reset();
      }
      std::vector<const Variable*> seen;
      backward(layers(), 1, {when, [&](Variable& leaf) {
                               seen.push_back(&leaf);
                               const bool is_w = &leaf == w.variable().get();
                               REQUIRE(to_doubles(leaf.grad) == (is_w ? expected_w : expected_b));
                             }});
      const std::vector<const Variable*> once{w.variable().get(), b.variable().get()};
      REQUIRE(seen.size() == 2);
      REQUIRE(std::ranges::is_permutation(seen, once));
      REQUIRE(std::ranges::find(seen, unused.variable().get()) == seen.end());
    }
  }
}

TEST_CASE("hooked to the kernel, one layer's gradients are alive at a time", "[recompute][hook]") {
  for (const Recompute recompute : {Recompute::none, Recompute::sqrt, Recompute::all}) {
    const auto model = five_blocks();
    const Parameters parameters =
        place(*model, DType::f32, test_device(), 1, GradientStorage::on_demand);
    REQUIRE_FALSE(parameters.gradients().defined());
    // One kernel may step a weight and its bias, which are neighbors.
    size_t largest = 0, before = 0;
    for (const auto& entry : parameters.entries()) {
      const size_t bytes =
          (entry.tensor.bytes() + Ledger::alignment - 1) / Ledger::alignment * Ledger::alignment;
      largest = std::max(largest, std::exchange(before, bytes) + bytes);
    }
    const Tensor x = Tensor::full({batch, 1, 6, 6}, 0.1, DType::f32, test_device(), Category::data);
    const Tensor labels = Tensor::from(std::vector<int32_t>(batch, 1), {batch}, test_device());
    const Pass pass{.samples = labels, .recompute = recompute};
    size_t seen = 0, most = 0;
    backward(cross_entropy((*model)(x, pass), labels), 1,
             {GradHook::When::kernel, [&](Variable& leaf) {
                ++seen;
                most = std::max(most, ledger(test_device()).current()[Category::gradients]);
                leaf.grad.reset();
                leaf.fresh = true;
              }});
    REQUIRE(seen == parameters.entries().size());
    REQUIRE(most <= largest);
    REQUIRE(ledger(test_device()).current()[Category::gradients] == 0);
  }
}

TEST_CASE("ops at the end of a segment compute only kept tensors the second time", "[recompute]") {
  // y = x + drop(u w^T + (u a^T) b^T), u = x + x. The second run computes only one of forward's
  // products, u a^T, because another op keeps it.
  const auto leaf = [](std::vector<double> values, const Shape& shape) {
    return require_grad(Tensor::from(values, shape, test_device(), Category::activations));
  };
  const auto run = [&](bool again) {
    const Tensor x = leaf({1, -2, 3, 0.5, -1, 4}, {2, 3}), a = leaf({0.5, 2, -1}, {1, 3});
    const Tensor w = leaf({1, 2, 3, 4, 5, 6, 7, 8, 10}, {3, 3}), b = leaf({3, -2, 0.25}, {3, 1});
    const DropoutKey key{.seed = 3,
                         .samples = Tensor::from(std::vector<int32_t>{4, 7}, {2}, test_device())};
    const Segment residual = [&](const std::vector<Tensor>& in) {
      Tensor u = add(in[0], in[0]);
      const SegmentEnd end;
      Tensor reduced;
      {
        const SegmentEnd not_yet(false);
        reduced = linear(u, a, {});
      }
      Tensor y = add_linear(linear(std::move(u), w, {}), reduced, b);
      return add(in[0], dropout(std::move(y), 0.3, key));
    };
    Profile profile(test_device(), 0);
    backward(sum((again ? recompute(residual, {x}) : residual({x})).reshape({1, 6})));
    profile.stop();
    double flops = 0;
    for (const Profile::Row& row : profile.rows()) flops += row.work.flops;
    return std::tuple(to_doubles(grad(x)), to_doubles(grad(w)), to_doubles(grad(a)),
                      to_doubles(grad(b)), flops);
  };
  const auto [dx, dw, da, db, flops] = run(false);
  const auto [dx_again, dw_again, da_again, db_again, flops_again] = run(true);
  REQUIRE(dx == dx_again);
  REQUIRE(dw == dw_again);
  REQUIRE(da == da_again);
  REQUIRE(db == db_again);
  REQUIRE(flops_again == flops + 2 * 2 * 3 * 1);
}

TEST_CASE("a segment has several results, of which some are alike or without gradients",
          "[recompute]") {
  const Tensor w =
      require_grad(Tensor::from(std::vector<double>{1, 2, 3, 4, 5, 6}, {2, 3}, test_device()));
  const Tensor x = require_grad(
      Tensor::from(std::vector<double>{0.5, -1, 2, 0.25, 3, -2}, {2, 3}, test_device()));
  const Tensor ones = Tensor::full({2, 3}, 1, DType::f64, test_device());
  int runs = 0;
  // a is read again inside, a's reshape has a's gradient, x comes back, `ones` has no gradient, and
  // nobody reads the last.
  const auto segment = [&](const std::vector<Tensor>& in) {
    ++runs;
    const Tensor a = mul(in[0], in[1]), b = sin(scale(a, 0.5));
    return std::vector<Tensor>{a, b, a.reshape({6}), in[0], add(ones, ones), sigmoid(a)};
  };
  const auto loss_of = [&](const std::vector<Tensor>& y, bool reads_all) {
    // a's gradient comes from three calls outside, in this order.
    Tensor sum = reads_all ? mul(tanh(y[0]), tanh(y[2].reshape({2, 3}))) : ones;
    if (reads_all) sum = mul(sum, y[0]);
    sum = add(mul(sum, y[3]), mul(y[4], y[1]));
    return mse_loss(sum, Tensor::full({2, 3}, 0.3, DType::f64, test_device()));
  };
  for (const bool reads_all : {true, false}) {
    std::vector<std::vector<double>> gradients;
    for (const bool again : {false, true}) {
      zero_grad(w);
      zero_grad(x);
      runs = 0;
      for (int micro = 0; micro < 2; ++micro) {
        const std::vector<Tensor> y = again ? recompute_several(segment, {x, w}) : segment({x, w});
        REQUIRE(y[2].variable() == y[0].variable());
        REQUIRE(y[3].variable() == x.variable());
        REQUIRE(!y[4].variable());
        backward(loss_of(y, reads_all));
      }
      REQUIRE(runs == (again ? 4 : 2));
      gradients.push_back(to_doubles(grad(w)));
      gradients.push_back(to_doubles(grad(x)));
    }
    REQUIRE(gradients[2] == gradients[0]);
    REQUIRE(gradients[3] == gradients[1]);
  }
}

TEST_CASE("leaves complete once though a segment has several results", "[recompute]") {
  const Tensor w = require_grad(Tensor::full({4}, 2, DType::f64, test_device()));
  for (const GradHook::When when : {GradHook::When::kernel, GradHook::When::op}) {
    zero_grad(w);
    const auto y = recompute_several(
        [](const std::vector<Tensor>& in) {
          const Tensor square = mul(in[0], in[0]);
          return std::vector<Tensor>{square, tanh(square)};
        },
        {w});
    int completed = 0;
    backward(mse_loss(mul(mul(y[0], y[1]), w), Tensor::full({4}, 1, DType::f64, test_device())), 1,
             {.when = when, .complete = [&](Variable&) { ++completed; }, .sum = &completed});
    REQUIRE(completed == 1);
  }
}

TEST_CASE("an op that hides an edge from a segment's first run is an error, not a lost gradient",
          "[recompute]") {
  const Tensor w = require_grad(Tensor::full({4}, 2, DType::f64, test_device()));
  const auto hides = [](const Tensor& x) {
    return Edge(x).wants_grad() ? tanh(x) : tanh(x.detach());
  };
  const auto y = recompute_several(
      [&](const std::vector<Tensor>& in) {
        const Tensor square = mul(in[0], in[0]);
        return std::vector<Tensor>{square, hides(square)};
      },
      {w});
  const Tensor loss = mse_loss(mul(y[0], y[1]), Tensor::full({4}, 1, DType::f64, test_device()));
  REQUIRE_ERROR(backward(loss), "depends on a variable has not told record()");
}

}  // namespace accrue::test
