// A loss that compares all samples of a window. tests/golden/contrastive.safetensors is PyTorch's
// result for the whole window as one batch (scripts/golden_contrastive.py).

#include "images/contrastive.h"

#include <map>

#include "layers/layers.h"
#include "tests/support/catch.h"
#include "tests/support/cli.h"
#include "tests/support/device.h"
#include "tests/support/op_table.h"
#include "tests/support/thread_ranks.h"
#include "tests/support/walked_window.h"
#include "train/game.h"

namespace accrue::test {
namespace contrastive_test {
namespace {

std::map<std::string, Tensor> golden() { return golden_tensors("contrastive"); }

std::vector<MicroBatch> golden_parts(const MicroBatchSizes& split) {
  const auto field = [](const char* name) { return as_f64(golden().at(name), test_device()); };
  return micro_batches_of({{{"images", field("images")}, {"views", field("views")}}}, split);
}

// The third step of a recorded window is the first that is replayed.
int steps_to_compare() { return reduced() ? 3 : golden_steps; }

// The layer between a convolution and a linear layer.
enum class Between { tanh, dropout, batch_norm };

WindowOutcome run(const MicroBatchSizes& split, Strategy strategy, Between layer = Between::tanh,
                  LossWay way = LossWay::walks, Ranks* ranks = nullptr,
                  BatchNormBy batch_norm_by = BatchNormBy::keep) {
  Sequential model;
  // In front of a BatchNorm the gradient of a bias is nothing but rounding, and Adam would turn
  // that into large steps.
  model.add<Conv2d>(1, 4, 3, Conv2dShape{.padding = 1}, InitScheme::kaiming,
                    layer == Between::batch_norm ? Bias::none : Bias::learned);
  if (layer == Between::tanh) model.add<Tanh>();
  if (layer == Between::dropout) model.add<Dropout>(0.5);
  if (layer == Between::batch_norm) model.add<BatchNorm>(4);
  model.add<Flatten>();
  model.add<Linear>(100, 6);
  Parameters parameters = place(model, DType::f64, test_device(), 3, gradient_storage(strategy));
  if (layer == Between::tanh)
    for (const auto& entry : parameters.entries())
      entry.tensor.copy_from(as_f64(golden().at("init." + entry.name), test_device()));
  const auto optimizer = adam(parameters, {});
  Window window(*optimizer, ScheduleOptions{.base = 0.01},
                {.effective_batch_size = golden_window_size, .strategy = strategy, .ranks = ranks});
  const auto parts = share_of(ranks, golden_parts(split));
  const ObjectivePtr objective = contrastive();
  const auto over =
      layer == Between::batch_norm ? BatchNormOver::window : BatchNormOver::micro_batch;
  const Player player = player_of(way, model, *objective, window, parts.size(), ranks,
                                  batch_norm_walk(over, batch_norm_by, few_window_passes, ranks));
  return take_steps(player, parts, steps_to_compare());
}

// The largest difference on any rank.
double difference(int count, const MicroBatchSizes& split, Strategy strategy,
                  const WindowOutcome& expected, Between layer = Between::tanh,
                  LossWay way = LossWay::walks) {
  std::vector<WindowOutcome> found(static_cast<size_t>(count));
  run_ranks(count, [&](Ranks& ranks) {
    found[size_t(ranks.rank())] = run(split, strategy, layer, way, &ranks);
  });
  double most = 0;
  for (const WindowOutcome& one : found) most = std::max(most, difference(one, expected));
  return most;
}

}  // namespace

TEST_CASE("a contrastive loss is PyTorch's over the whole window, for every split", "[golden]") {
  const WindowOutcome expected = by_pytorch(golden(), steps_to_compare());
  for (const MicroBatchSizes& split : golden_splits)
    for (const Strategy strategy :
         {Strategy::fused, Strategy::separate, Strategy::step_in_backward}) {
      if (strategy == Strategy::step_in_backward && split.size() > 1) continue;
      INFO(split.size() << " micro-batches, strategy " << int(strategy));
      REQUIRE(difference(run(split, strategy), expected) <= 1e-12);
    }
  REQUIRE(difference(run({5, 4, 3}, Strategy::fused, Between::tanh, LossWay::unweighted),
                     expected) > 1e-4);
}

TEST_CASE("a contrastive loss is of the whole window of all ranks", "[ranks][golden]") {
  const WindowOutcome expected = by_pytorch(golden(), steps_to_compare());
  for (const int count : {2, 3})
    for (size_t i = 0; i < golden_splits.size(); ++i)
      for (const Strategy strategy :
           {Strategy::fused, Strategy::separate, Strategy::step_in_backward}) {
        const MicroBatchSizes& split = golden_splits[i];
        if (strategy == Strategy::step_in_backward && std::ssize(split) > count) continue;
        // Takes each number of ranks and each split with one of two strategies.
        if (reduced() && int(i + size_t(count)) % 2 == int(strategy == Strategy::fused)) continue;
        INFO(count << " ranks, " << split.size() << " micro-batches, strategy " << int(strategy));
        REQUIRE(difference(count, split, strategy, expected) <= 1e-12);
      }
  for (const LossWay way : {LossWay::each_rank, LossWay::unweighted})
    REQUIRE(difference(2, {5, 4, 3}, Strategy::fused, expected, Between::tanh, way) > 1e-4);
  for (const Between layer : {Between::dropout, Between::batch_norm}) {
    const WindowOutcome at_once = run({12}, Strategy::fused, layer, LossWay::at_once);
    REQUIRE(difference(2, {5, 4, 3}, Strategy::fused, at_once, layer) <= 1e-12);
    REQUIRE(difference(3, {6, 6}, Strategy::fused, at_once, layer) <= 1e-12);
  }
}

TEST_CASE("both walks of a contrastive window have the same masks and statistics", "[golden]") {
  for (const Between layer : {Between::dropout, Between::batch_norm}) {
    const WindowOutcome expected = run({12}, Strategy::fused, layer, LossWay::at_once);
    REQUIRE(difference(run({12}, Strategy::fused, layer), expected) <= 1e-12);
    REQUIRE(difference(run({5, 4, 3}, Strategy::fused, layer), expected) <= 1e-12);
    if (layer == Between::batch_norm)
      REQUIRE(difference(run({5, 4, 3}, Strategy::fused, layer, LossWay::walks, nullptr,
                             BatchNormBy::walk),
                         expected) <= 1e-12);
  }
  const WindowOutcome expected = run({12}, Strategy::fused, Between::dropout, LossWay::at_once);
  REQUIRE(difference(run({12}, Strategy::fused, Between::dropout, LossWay::other_masks), expected) >
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
