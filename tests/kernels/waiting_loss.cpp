#include <algorithm>
#include <cmath>
#include <memory>

#include "core/autograd.h"
#include "core/ledger.h"
#include "core/limit_scope.h"
#include "core/profile.h"
#include "kernels/arithmetic.h"
#include "kernels/judged.h"
#include "kernels/linear_cross_entropy.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"
#include "tests/support/op_table.h"
#include "tests/support/random_head.h"

namespace accrue::test {

// Two backwards, of which the second adds to the gradients of the first.
TEST_CASE("linear_cross_entropy_in_backward has the bits of linear_cross_entropy", "[ops]") {
  enum class Loss { now, in_backward, read_before };
  const Values xs = uniform(21 * 3, 1), ws = uniform(85 * 3, 2);
  const auto compare = [&]<class T>(T, const Head& head, bool judges) {
    const auto find = [&](Loss when) {
      const Tensor x = leaf<T>(xs, head.x_shape()), w = leaf<Wide<T>>(ws, head.w_shape());
      if (sizeof(T) == 2) w.variable()->copy = leaf<T>(ws, head.w_shape()).detach();
      const Tensor labels = indices(head.labels, x),
                   judged = judges ? judged_weight(labels) : Tensor();
      Outcome sum{0, {}, {}};
      for (const double seed : {0.3, -0.7}) {
        // dx goes over the value of 2 x, which no one else holds.
        const Tensor loss =
            when == Loss::now ? linear_cross_entropy(scale(x, 2), w, labels, judged, 8)
                              : linear_cross_entropy_in_backward(scale(x, 2), w, labels, judged, 8);
        REQUIRE(loss.is_waiting() == (when != Loss::now));
        if (when == Loss::read_before) sum.loss += loss.item();
        REQUIRE(loss.is_waiting() == (when == Loss::in_backward));
        backward(loss, seed);
        REQUIRE_FALSE(loss.is_waiting());
        if (when != Loss::read_before) sum.loss += loss.item();
      }
      sum.dx = to_doubles(grad(x));
      sum.dw = to_doubles(grad(w));
      return sum;
    };
    const Outcome expected = find(Loss::now);
    REQUIRE(std::isfinite(expected.loss));
    REQUIRE(find(Loss::read_before) == expected);
    for (int order = 0; order < thread_orders(); ++order) {
      set_thread_order(order);
      REQUIRE(find(Loss::in_backward) == expected);
    }
  };
  const Head all = random_head(21, 85, 3);
  Head some = all, none = all;
  for (const size_t r : {0, 3, 9, 20}) some.labels[r] = not_judged;
  std::ranges::fill(none.labels, not_judged);
  compare(float(), all, false);
  compare(float(), some, true);
  compare(BFloat16(), some, true);
  compare(double(), none, true);
  if (!reduced()) compare(Half(), all, true), compare(double(), some, true);
}

TEST_CASE("linear_cross_entropy_in_backward waits only for a backward", "[ops]") {
  const Head head = random_head(20, 9, 3);
  const Values xs = uniform(20 * 3, 1), ws = uniform(9 * 3, 2);
  const Tensor x = leaf(xs, head.x_shape()), w = leaf(ws, head.w_shape()),
               labels = indices(head.labels, x);
  const auto loss_of = [&] { return linear_cross_entropy_in_backward(x, w, labels, {}, 6); };
  const double expected = linear_cross_entropy(x, w, labels, {}, 6).item();
  {
    const NoGrad no_grad;
    REQUIRE_FALSE(loss_of().is_waiting());
    REQUIRE(loss_of().item() == expected);
  }
  const Tensor again = recompute([&](const auto&) { return loss_of(); }, {});
  REQUIRE_FALSE(again.is_waiting());
  REQUIRE(again.item() == expected);
  const Tensor of_frozen = linear_cross_entropy_in_backward(x, w.detach(), labels, {}, 6);
  REQUIRE_FALSE(of_frozen.is_waiting());
  // The logits are computed once, and so is each gradient.
  Profile profile(test_device(), 0);
  backward(loss_of());
  profile.stop();
  double flops = 0;
  for (const Profile::Row& row : profile.rows()) flops += row.work.flops;
  REQUIRE(flops == 3 * 2 * 20 * 9 * 3);
  // It is read through another tensor, or by an op.
  const Tensor loss = loss_of(), same = loss.detach().reshape({1});
  REQUIRE(same.item() == expected);
  REQUIRE_FALSE(loss.is_waiting());
  REQUIRE(scale(loss_of(), 2).item() == 2 * expected);
  const Tensor late = loss_of();
  w.fill(1);
  REQUIRE_ERROR(late.item(), "somebody has overwritten it");
  REQUIRE_ERROR(backward(late), "somebody has overwritten it");
}

TEST_CASE("a loss that waits keeps no graph, and does not mind another loss", "[ops]") {
  const Head head = random_head(20, 9, 3), other_head{9, 3, std::vector<int32_t>(20, 4)};
  const Values xs = uniform(20 * 3, 1), ws = uniform(9 * 3, 2);
  const auto find = [&](auto&& loss_of) {
    const Tensor x = leaf(xs, head.x_shape()), w = leaf(ws, head.w_shape());
    std::weak_ptr<Variable> graph;
    Tensor value;
    {
      const Tensor states = scale(x, 2);
      graph = states.variable();
      value = loss_of(states, w, indices(head.labels, x)).detach();
    }
    REQUIRE(graph.expired());
    const Tensor one = loss_of(x, w, indices(head.labels, x)),
                 two = loss_of(x, w, indices(other_head.labels, x));
    backward(one);
    Values all{value.item(), one.item(), two.item()};
    REQUIRE_FALSE(value.is_waiting());
    backward(two);
    for (const Tensor& t : {x, w})
      for (const double g : to_doubles(grad(t))) all.push_back(g);
    return all;
  };
  const Values expected = find([](const Tensor& x, const Tensor& w, const Tensor& labels) {
    return linear_cross_entropy(x, w, labels, {}, 6);
  });
  REQUIRE(find([](const Tensor& x, const Tensor& w, const Tensor& labels) {
            const Tensor loss = linear_cross_entropy_in_backward(x, w, labels, {}, 6);
            REQUIRE(loss.is_waiting());
            return loss;
          }) == expected);
}

TEST_CASE("a loss that waits can be read after a failed backward, unless that has begun to write",
          "[ops]") {
  const Head head = random_head(20, 9, 3);
  const Values xs = uniform(20 * 3, 1), ws = uniform(9 * 3, 2);
  const Tensor x = leaf(xs, head.x_shape()), w = leaf(ws, head.w_shape()),
               labels = indices(head.labels, x);
  const double expected = linear_cross_entropy(x, w, labels).item();
  claim_grad(x), claim_grad(w);
  const Tensor loss = linear_cross_entropy_in_backward(x, w, labels);
  {
    const size_t bytes_of_seed = 64;
    const LimitScope limit(test_device(), ledger(test_device()).current().total() + bytes_of_seed);
    REQUIRE_THROWS_AS(backward(loss), OutOfMemory);
  }
  REQUIRE(loss.is_waiting());
  REQUIRE(loss.item() == expected);
  if (test_device() != Device::cpu) return;
  const Tensor failed = linear_cross_entropy_in_backward(x, w, labels);
  labels.span<int32_t>()[3] = 9;  // which no one detects before
  REQUIRE_ERROR(backward(failed), "label 9 of row 3 is outside [0, 9)");
  REQUIRE_ERROR(failed.item(), "the loss is unknown, because its backward has failed");
}

}  // namespace accrue::test
