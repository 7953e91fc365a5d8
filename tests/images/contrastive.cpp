// A loss that compares all samples of a window. tests/golden/contrastive.safetensors is PyTorch's
// result for the whole window as one batch (scripts/golden_contrastive.py).

#include "images/contrastive.h"

#include <cmath>
#include <map>
#include <numeric>

#include "data/safetensors.h"
#include "layers/layers.h"
#include "tests/support/catch.h"
#include "tests/support/cli.h"
#include "tests/support/device.h"
#include "tests/support/golden_window.h"
#include "tests/support/op_table.h"
#include "tests/support/paths.h"
#include "tests/support/thread_ranks.h"
#include "train/game.h"
#include "train/weights.h"

namespace accrue::test {
namespace contrastive_test {
namespace {

std::map<std::string, Tensor> golden() { return golden_tensors("contrastive"); }

std::vector<MicroBatch> golden_parts(const MicroBatchSizes& split) {
  const auto field = [](const char* name) { return as_f64(golden().at(name), test_device()); };
  return micro_batches_of({{{"images", field("images")}, {"views", field("views")}}}, split);
}

// The layer between a convolution and a linear layer.
enum class Layer { tanh, dropout, batch_norm };

// How it is computed: in two walks; as one graph of one micro-batch; or with a mistake that a test
// sees: the rows of the gradient count alike in every micro-batch, the second walk has other masks
// than the first, or each rank compares its own samples alone.
enum class Way { walks, at_once, unweighted, other_masks, each_rank };

WindowOutcome run(const MicroBatchSizes& split, Strategy strategy, Layer layer = Layer::tanh,
                  Way way = Way::walks, Ranks* ranks = nullptr, int64_t window_passes = 0) {
  Sequential model;
  // In front of a BatchNorm a bias has no gradient but roundings, which Adam makes large.
  model.add<Conv2d>(1, 4, 3, Conv2dShape{.padding = 1}, InitScheme::kaiming,
                    layer == Layer::batch_norm ? Bias::none : Bias::learned);
  if (layer == Layer::tanh) model.add<Tanh>();
  if (layer == Layer::dropout) model.add<Dropout>(0.5);
  if (layer == Layer::batch_norm) model.add<BatchNorm>(4);
  model.add<Flatten>();
  model.add<Linear>(100, 6);
  Parameters parameters = place(model, DType::f64, test_device(), 3, gradient_storage(strategy));
  if (layer == Layer::tanh)
    for (const auto& entry : parameters.entries())
      entry.tensor.copy_from(as_f64(golden().at("init." + entry.name), test_device()));
  const auto optimizer = adam(parameters, {});
  Window window(*optimizer, ScheduleOptions{.base = 0.01},
                {.effective_batch_size = golden_window_size, .strategy = strategy, .ranks = ranks});
  const auto parts = share_of(ranks, golden_parts(split));
  const ObjectivePtr objective = contrastive();
  size_t answered = 0;
  const auto answer = [&](const Samples& samples, Pass pass) {
    if (way == Way::other_masks) pass.seed += answered++ / parts.size();
    return objective->answer(model, samples, pass);
  };
  const auto of_answers = [&](const Tensor& answers) { return objective->window_loss(answers); };
  Player player{.name = "", .window = window};
  if (way == Way::at_once)
    player.loss = [&](const Samples& s, const Pass& pass) { return of_answers(answer(s, pass)); };
  else
    player.window_loss =
        std::make_shared<WindowLoss>(answer, of_answers, way == Way::each_rank ? nullptr : ranks);
  if (layer == Layer::batch_norm && way != Way::at_once) {
    player.batch_norm = BatchNormOver::window;
    player.window_passes = window_passes;
  }
  // Half of what WindowLoss asks for where a micro-batch is half of the window, and so on.
  if (way == Way::unweighted)
    player.weight = [](const Samples& samples) {
      return Tensor::full({}, double(samples.size() * samples.size()) / golden_window_size,
                          DType::f64, test_device());
    };
  Game game({player});
  WindowOutcome outcome;
  for (int step = 0; step < golden_steps; ++step) {
    game.play(window_of(parts), {.seed = 5, .epoch = step});
    outcome.add_step(window);
  }
  outcome.set_weights(parameters);
  return outcome;
}

double difference(const WindowOutcome& a, const WindowOutcome& b) {
  double most = largest_difference(a.losses, b.losses);
  for (const auto& [name, values] : a.weights)
    most = std::max(most, largest_difference(values, b.weights.at(name)));
  return most;
}

// The largest one of a rank.
double difference(int count, const MicroBatchSizes& split, Strategy strategy,
                  const WindowOutcome& expected, Layer layer = Layer::tanh, Way way = Way::walks) {
  std::vector<WindowOutcome> found(static_cast<size_t>(count));
  run_ranks(count, [&](Ranks& ranks) {
    found[size_t(ranks.rank())] = run(split, strategy, layer, way, &ranks);
  });
  double most = 0;
  for (const WindowOutcome& one : found) {
    most = std::max(most, difference(one, expected));
    for (const auto& [name, values] : one.gradients)
      most = std::max(most, largest_difference(values, expected.gradients.at(name)));
  }
  return most;
}

}  // namespace

TEST_CASE("a contrastive loss is PyTorch's over the whole window, for every split", "[golden]") {
  const WindowOutcome expected = by_pytorch(golden());
  for (const MicroBatchSizes& split : golden_splits)
    for (const Strategy strategy :
         {Strategy::fused, Strategy::separate, Strategy::step_in_backward}) {
      if (strategy == Strategy::step_in_backward && split.size() > 1) continue;
      INFO(split.size() << " micro-batches, strategy " << int(strategy));
      const WindowOutcome found = run(split, strategy);
      REQUIRE(difference(found, expected) <= 1e-12);
      for (size_t i = 0; i < found.norms.size(); ++i)
        if (!std::isnan(found.norms[i]))
          REQUIRE(std::abs(found.norms[i] - expected.norms[i]) <= 1e-12);
      for (const auto& [name, values] : found.gradients)
        REQUIRE(largest_difference(values, expected.gradients.at(name)) <= 1e-12);
    }
  REQUIRE(difference(run({5, 4, 3}, Strategy::fused, Layer::tanh, Way::unweighted), expected) >
          1e-4);
}

TEST_CASE("a contrastive loss is of the whole window of all ranks", "[ranks][golden]") {
  const WindowOutcome expected = by_pytorch(golden());
  for (const int count : {2, 3})
    for (const MicroBatchSizes& split : golden_splits)
      for (const Strategy strategy :
           {Strategy::fused, Strategy::separate, Strategy::step_in_backward}) {
        if (strategy == Strategy::step_in_backward && std::ssize(split) > count) continue;
        INFO(count << " ranks, " << split.size() << " micro-batches, strategy " << int(strategy));
        REQUIRE(difference(count, split, strategy, expected) <= 1e-12);
      }
  for (const Way way : {Way::each_rank, Way::unweighted})
    REQUIRE(difference(2, {5, 4, 3}, Strategy::fused, expected, Layer::tanh, way) > 1e-4);
  for (const Layer layer : {Layer::dropout, Layer::batch_norm}) {
    const WindowOutcome at_once = run({12}, Strategy::fused, layer, Way::at_once);
    REQUIRE(difference(2, {5, 4, 3}, Strategy::fused, at_once, layer) <= 1e-12);
    REQUIRE(difference(3, {6, 6}, Strategy::fused, at_once, layer) <= 1e-12);
  }
}

TEST_CASE("both walks of a contrastive window have the same masks and statistics", "[golden]") {
  for (const Layer layer : {Layer::dropout, Layer::batch_norm}) {
    const WindowOutcome expected = run({12}, Strategy::fused, layer, Way::at_once);
    REQUIRE(difference(run({12}, Strategy::fused, layer), expected) <= 1e-12);
    REQUIRE(difference(run({5, 4, 3}, Strategy::fused, layer), expected) <= 1e-12);
    if (layer == Layer::batch_norm)
      REQUIRE(difference(run({5, 4, 3}, Strategy::fused, layer, Way::walks, nullptr, 5),
                         expected) <= 1e-12);
  }
  const WindowOutcome expected = run({12}, Strategy::fused, Layer::dropout, Way::at_once);
  REQUIRE(difference(run({12}, Strategy::fused, Layer::dropout, Way::other_masks), expected) >
          1e-4);
}

TEST_CASE("a network that tells images apart is trained, resumed and given a new head", "[cli]") {
  const Folder folder;
  const std::string data = " --data " + few_digits().path().string(),
                    batches = " --micro-batch 3 --effective-batch 8 --seed 4",
                    simclr =
                        "train --model mlp-small --objective simclr --embedding-size 8 "
                        "--augment crop=0.6,rotate" +
                        data + batches;
  const std::string said = succeed(simclr + " --steps 3 --save " + (folder / "whole"));
  REQUIRE_THAT(said, ContainsSubstring("predicted to the byte"));
  REQUIRE_THAT(said, ContainsSubstring("test probe 0."));
  const std::string checkpoints = " --checkpoint-dir " + (folder / "checkpoints");
  succeed(simclr + " --steps 2" + checkpoints);
  succeed(simclr + " --steps 3 --resume" + checkpoints + " --save " + (folder / "resumed"));
  REQUIRE(file_bytes(folder / "whole") == file_bytes(folder / "resumed"));
  REQUIRE_THAT(succeed("eval --init " + (folder / "whole") + data),
               ContainsSubstring("test probe"));
  REQUIRE_THAT(succeed("train --init " + (folder / "whole") + data + batches +
                       " --objective labels --new-head --freeze backbone --steps 1"),
               ContainsSubstring("8 classes in "));
  refuse("train --model mlp-small --objective simclr --steps 1" + data, "two views of an image");
  refuse("predict --weights " + (folder / "whole") + data + " --out " + (folder / "answers"),
         "tells images apart, and knows no classes");
  refuse(simclr + " --on-overflow drop-micro-batch --strategy separate --steps 1",
         "no micro-batch can be left out");
}

}  // namespace contrastive_test
}  // namespace accrue::test
