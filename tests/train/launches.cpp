// The number of launches in training (docs/cuda.md, "The floor"): on a GPU they are most of the
// time of small networks. The runner counts them.

#include "images/digits.h"
#include "kernels/arithmetic.h"
#include "layers/blocks.h"
#include "layers/models.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"
#include "tests/support/files.h"
#include "tests/support/op_table.h"
#include "tests/support/skipped.h"
#include "train/training.h"

namespace accrue::test {
namespace {

struct Launches {
  int64_t micro_step, step;
};

// Counts the launches of the second window, when the plans of products and convolutions exist.
Launches count(ModelKind model) {
  constexpr int64_t m = 32, E = 64;
  TrainingOptions options;
  options.model = model_factory(default_model(model));
  options.batches = {m, E};
  options.cuda_graphs = Graphs::off;
  const Dataset digits =
      make_digits(Split::train, {.train_size = 2 * E, .test_size = 1}).to(test_device());
  Training training(options, digits, test_device());
  training.loader().start_epoch(0);
  const auto micro_step = [&] { training.micro_step(*training.loader().next(), 0); };
  const auto step = [&] { training.window().enqueue_step(); };
  micro_step(), micro_step(), step(), micro_step();
  return {launches_of(micro_step), launches_of(step)};
}

// Counts the launches of a window of K micro-batches that is replayed.
int64_t launches_of_window(int64_t K, Graphs graphs, const Dataset& digits) {
  constexpr int64_t m = 8;
  TrainingOptions options;
  options.model = model_factory({.kind = ModelKind::mlp_small});
  options.batches = {m, K * m};
  options.cuda_graphs = graphs;
  Training training(options, digits, test_device());
  training.loader().start_epoch(0);
  const auto window = [&] {
    for (int64_t k = 0; k < K; ++k) training.micro_step(*training.loader().next(), 0);
    training.window().enqueue_step();
  };
  // First windows are run, recorded and launched piece by piece. Then each window is one graph.
  for (int i = 0; i < 5; ++i) window();
  const int64_t launches = launches_of([&] { window(), window(); });
  training.window().reports(Window::Wait::yes);
  return launches;
}

}  // namespace

TEST_CASE("the micro-steps of a window are one launch", "[launches]") {
  if (!on_runner()) SKIP_LOUDLY("only the runner counts launches");
  const Dataset digits =
      make_digits(Split::train, {.train_size = 8 * 64, .test_size = 1}).to(test_device());
  // A window is the micro-steps with their gathers, the plan, and the step.
  for (const int64_t K : {1, 2, 4, 8}) REQUIRE(launches_of_window(K, Graphs::on, digits) == 2 * 3);
  REQUIRE(launches_of_window(4, Graphs::off, digits) > 2 * 4 * 8);
}

// Forward: two convolutions, the first norm with its relu, the second norm, and the sum with relu.
// Channels are so small here that the kernel of a norm computes its moments as well. Backward: both
// operands' gradients of the sum; for each norm all its gradients; for each convolution dx and dw.
// scale() takes one each way, and a loss and its gradient take three.
TEST_CASE("a residual block takes no more launches than it did", "[launches]") {
  if (!on_runner()) SKIP_LOUDLY("only the runner counts launches");
  BasicBlock block(8, 8, 1, NormKind::batch);
  const Parameters parameters = place(block, DType::f32, test_device(), 1);
  const Tensor x = require_grad(Tensor::full({2, 8, 5, 5}, 1, DType::f32, test_device()));
  const auto forward = [&] { return block(scale(x, 2)); };
  backward_of_sum(forward());  // the plans of convolutions exist from now on
  Tensor y;
  REQUIRE(launches_of([&] { y = forward(); }) == 1 + 5);
  REQUIRE(launches_of([&] { backward_of_sum(y); }) == 3 + 7 + 1);
}

TEST_CASE("a micro-step and a step take no more launches than they did", "[launches]") {
  if (!on_runner()) SKIP_LOUDLY("only the runner counts launches");
  const Launches mlp = count(ModelKind::mlp), cnn = count(ModelKind::cnn);
  REQUIRE(mlp.micro_step == 14);
  REQUIRE(cnn.micro_step == 22);
  REQUIRE(mlp.step == 5);
  REQUIRE(cnn.step == 5);
}

}  // namespace accrue::test
