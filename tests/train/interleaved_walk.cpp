// BatchNorms that see a whole window. tests/golden/batch_norm.safetensors is PyTorch's result for
// the window as one batch (scripts/golden_batch_norm.py).

#include "train/interleaved_walk.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "core/cuda.h"
#include "core/limit_scope.h"
#include "data/safetensors.h"
#include "images/augmentation.h"
#include "images/contrastive.h"
#include "images/digits.h"
#include "kernels/losses.h"
#include "layers/layers.h"
#include "layers/models.h"
#include "tests/support/allocation_failure.h"
#include "tests/support/catch.h"
#include "tests/support/cli.h"
#include "tests/support/device.h"
#include "tests/support/files.h"
#include "tests/support/golden_window.h"
#include "tests/support/op_table.h"
#include "tests/support/paths.h"
#include "tests/support/skipped.h"
#include "tests/support/thread_ranks.h"
#include "tests/support/training_state.h"
#include "train/game.h"
#include "train/memory_prediction.h"
#include "train/objective.h"
#include "train/plan.h"
#include "train/training.h"
#include "train/weights.h"

namespace accrue::test {
namespace interleaved_walk_test {
namespace {

std::map<std::string, Tensor> golden() { return golden_tensors("batch_norm"); }

std::vector<MicroBatch> golden_parts(const MicroBatchSizes& split) {
  return micro_batches_of({{{"images", as_f64(golden().at("images"), test_device())},
                            {"labels", golden().at("labels").to(test_device())}}},
                          split);
}

// Whose statistics BatchNorms use: the micro-batch's; or the window's, by a game that keeps the
// window, offloads it, or walks it several times. `constants` is a common mistake: forward uses the
// window's statistics, but backward treats them as constants.
enum class Way { micro_batch, keep, offload, walk, constants };

BatchNormBy batch_norm_by(Way way) {
  switch (way) {
    case Way::offload: return BatchNormBy::offload;
    case Way::walk: return BatchNormBy::walk;
    case Way::micro_batch:
    case Way::keep:
    case Way::constants: break;
  }
  return BatchNormBy::keep;
}

constexpr int64_t norms = 3;

struct ConstantStatistics : JoinedBatch {
  explicit ConstantStatistics(JoinedBatch& whole) : whole(whole) {}
  Run join_moments(const void* norm, const Own& own, const OfAll& of_all) override {
    return whole.join_moments(norm, own, of_all);
  }
  Tensor join_dx_terms(const Run& run, const Own& own, const OfAll& of_all) override {
    Tensor joined = whole.join_dx_terms(run, own, of_all);
    if (joined.defined()) joined.fill(0);
    return joined;
  }
  JoinedBatch& whole;
};

WindowOutcome run(const MicroBatchSizes& split, Recompute recompute = Recompute::none,
                  Way way = Way::keep, Ranks* ranks = nullptr,
                  Strategy strategy = Strategy::fused) {
  Sequential model;
  model.add<Conv2d>(2, 4, 3, Conv2dShape{.padding = 1}, InitScheme::kaiming, Bias::none);
  model.add<BatchNorm>(4);
  model.add<Tanh>();
  model.add<Conv2d>(4, 6, 3, Conv2dShape{.stride = 2, .padding = 1}, InitScheme::kaiming,
                    Bias::none);
  model.add<BatchNorm>(6);
  model.add<Tanh>();
  model.add<Conv2d>(6, 8, 3, Conv2dShape{}, InitScheme::kaiming, Bias::none);
  model.add<BatchNorm>(8);
  model.add<Tanh>();
  model.add<Flatten>();
  model.add<Linear>(8, 3);
  Parameters parameters = place(model, DType::f64, test_device(), 3, gradient_storage(strategy));
  for (const auto& entry : parameters.entries())
    entry.tensor.copy_from(as_f64(golden().at("init." + entry.name), test_device()));
  const auto optimizer = adam(parameters, {});
  Window window(*optimizer, ScheduleOptions{.base = 0.01},
                {.effective_batch_size = golden_window_size, .strategy = strategy, .ranks = ranks});
  const ObjectivePtr objective = classification();
  const auto loss = [&](const Samples& samples, const Pass& pass) {
    return objective->loss(objective->answer(model, samples, pass), samples);
  };
  const auto over = way == Way::micro_batch ? BatchNormOver::micro_batch : BatchNormOver::window;
  Game game({{.name = "",
              .window = window,
              .loss = loss,
              .walk = batch_norm_walk(over, batch_norm_by(way), 2 * norms, ranks)}});
  const auto parts = share_of(ranks, golden_parts(split));
  WindowOutcome outcome;
  for (int step = 0; step < golden_steps; ++step) {
    if (way == Way::constants) {
      InterleavedWalk walk;
      ConstantStatistics constant(walk);
      for (const MicroBatch& part : parts)
        walk.run(part, {.recompute = recompute}, [&](const MicroBatch& own, Pass pass) {
          pass.batch = &constant;
          window.backward(loss(own, pass), own.size());
        });
      walk.finish();
      window.enqueue_step();
    } else {
      game.play(window_of(parts), {.recompute = recompute});
    }
    outcome.add_step(window);
  }
  outcome.set_weights(parameters);
  return outcome;
}

}  // namespace

TEST_CASE("BatchNorms over a window are PyTorch's in one batch, for every number of ranks",
          "[ranks][golden]") {
  if (on_runner()) return;  // ranks exchange memory of the host here
  const WindowOutcome expected = by_pytorch(golden());
  const auto ways = {std::pair(Way::keep, Recompute::none), std::pair(Way::keep, Recompute::all),
                     std::pair(Way::walk, Recompute::none)};
  for (const int count : {2, 3})
    for (const auto& [way, recompute] : ways)
      for (const MicroBatchSizes& split : golden_splits) {
        std::vector<WindowOutcome> found(static_cast<size_t>(count));
        run_ranks(count, [&, way = way, recompute = recompute](Ranks& ranks) {
          found[size_t(ranks.rank())] = run(split, recompute, way, &ranks);
        });
        for (const WindowOutcome& one : found) {
          INFO(count << " ranks, " << split.size() << " micro-batches");
          REQUIRE(difference(one, expected) <= 1e-12);
        }
      }
}

TEST_CASE("BatchNorms over a window are PyTorch's in one batch, for every split", "[golden]") {
  const WindowOutcome expected = by_pytorch(golden());
  for (const Recompute recompute : {Recompute::none, Recompute::sqrt, Recompute::all})
    for (const MicroBatchSizes& split : golden_splits) {
      if (on_runner() && split.size() != 3) continue;
      INFO(split.size() << " micro-batches, recompute " << int(recompute));
      const WindowOutcome kept = run(split, recompute);
      REQUIRE(difference(kept, expected) <= 1e-12);
      REQUIRE(difference(run(split, recompute, Way::walk), kept) == 0);
      if (test_device() == Device::cuda)
        REQUIRE(difference(run(split, recompute, Way::offload), kept) == 0);
    }
  REQUIRE(difference(run({5, 4, 3}, Recompute::none, Way::walk, nullptr, Strategy::separate),
                     expected) <= 1e-12);
  REQUIRE(difference(run({12}, Recompute::none, Way::micro_batch), expected) <= 1e-12);
  for (const Way way : {Way::micro_batch, Way::constants})
    REQUIRE(difference(run({6, 6}, Recompute::none, way), expected) > 1e-2);
}

namespace {

// An epoch has two windows of 12 samples and one of 10.
constexpr int64_t samples = 34, windows_per_epoch = 3;

Dataset some_digits() {
  return make_digits(accrue::Split::train, {.train_size = samples, .test_size = 1});
}

TrainingOptions options_of(ModelKind model, Recompute recompute = Recompute::all) {
  ModelOptions network = default_model(model);
  network.width = 0.25;
  TrainingOptions options;
  options.model = model_factory(network);
  options.batches = {.micro = 5, .effective = golden_window_size};
  options.epochs = 2;
  options.schedule.base = 1e-2;
  options.recompute = recompute;
  options.batch_norm = BatchNormOver::window;
  return options;
}

void play(Training& training, Loader& loader, int64_t window) {
  const int64_t epoch = window / windows_per_epoch;
  Game& game = training.game();
  const auto parts = window_of(loader, epoch, window % windows_per_epoch);
  game.accumulate(game.all_turns().front(), parts, training.pass(epoch));
  game.step(game.all_turns().front());
}

}  // namespace

TEST_CASE("a window of joined BatchNorms that fails is run again in halves", "[oom]") {
  const BatchNormBy by = GENERATE(BatchNormBy::keep, BatchNormBy::walk);
  const Dataset data = some_digits();
  TrainingOptions options = options_of(ModelKind::cnn_bn);
  options.batch_norm_by = by;
  options.on_oom = OnOom::split;
  const auto loader_of = [&](int64_t micro) {
    return std::make_unique<Loader>(data, LoaderOptions{.effective_batch_size = golden_window_size,
                                                        .micro_batch_size = micro,
                                                        .seed = options.seed});
  };
  // Micro-batches of 5 in the first window, and of 3 from the second on.
  TrainingState expected;
  int64_t before = 0, all = 0;
  {
    Training training(options, data, Device::cpu);
    const auto larger = loader_of(5), smaller = loader_of(3);
    play(training, *larger, 0);
    play(training, *smaller, 1);
    play(training, *smaller, 2);
    training.window().reports(Window::Wait::yes);
    expected = state_of_training(training);
  }
  {
    Training training(options, data, Device::cpu);
    Observer nobody;
    const int64_t start = allocations();
    training.play(0, 0, nobody);
    before = allocations() - start;
    training.play(0, 1, nobody);
    all = allocations() - start;
  }
  const size_t in_use = ledger(Device::cpu).current().total();
  for (int64_t n = before + 1; n < all; n += (all - before) / 23) {
    INFO("allocation " << n << " of " << before << " to " << all);
    Training training(options, data, Device::cpu);
    Observer nobody;
    {
      const AllocationFailure failure(n);
      for (int64_t window = 0; window < windows_per_epoch; ++window)
        training.play(0, window, nobody);
      REQUIRE(failure.happened());
    }
    training.window().reports(Window::Wait::yes);
    REQUIRE(training.batches().micro == 3);
    REQUIRE(state_of_training(training) == expected);
  }
  REQUIRE(ledger(Device::cpu).current().total() == in_use);
}

TEST_CASE("a window that comes back from the host into too little memory is run again in halves",
          "[offload]") {
  const Device device = test_device();
  if (device != Device::cuda) SKIP_LOUDLY("nothing is offloaded without --device cuda");
  TrainingOptions options = options_of(ModelKind::cnn_bn, Recompute::none);
  options.batch_norm_by = BatchNormBy::offload;
  options.share_unit = options.batches.micro;
  const Dataset data = some_digits();
  const size_t peak = peak_of_windows(options, data, device).total();
  const auto state_after_window = [&](int64_t micro) {
    options.batches.micro = micro;
    Training training(options, data, device);
    Observer nobody;
    training.play(0, 0, nobody);
    training.window().reports(Window::Wait::yes);
    REQUIRE(training.batches().micro == 3);
    return state_of_training(training);
  };
  const TrainingState expected = state_after_window(3);
  options.on_oom = OnOom::split;
  const LimitScope limit(device, peak - 1);
  REQUIRE(state_after_window(5) == expected);
}

TEST_CASE("memory that a window was offloaded to is unlocked when its training ends", "[offload]") {
  const Device device = test_device();
  if (device != Device::cuda) SKIP_LOUDLY("nothing is offloaded without --device cuda");
  TrainingOptions options = options_of(ModelKind::cnn_bn, Recompute::none);
  options.batch_norm_by = BatchNormBy::offload;
  const auto locked = [] { return cuda::blocks_on_host().statistics(); };
  {
    Training training(options, some_digits(), device);
    Observer nobody;
    training.play(0, 0, nobody);
    REQUIRE(locked().allocated == 0);
    REQUIRE(locked().reserved > 0);
  }
  REQUIRE(locked().reserved == 0);
}

TEST_CASE("a window that is stopped in any of its walks is rolled back", "[passes]") {
  struct Way {
    bool has_views;
    BatchNormBy by;
    int64_t walks;
  };
  // For two views, two norms run twice. Each run takes a walk. The answers that the loss compares
  // take another walk that finds no statistics missing, and one that sees the answers.
  for (const auto& [has_views, by, walks] :
       {Way{false, BatchNormBy::walk, 5}, Way{false, BatchNormBy::keep, 1},
        Way{true, BatchNormBy::keep, 2}, Way{true, BatchNormBy::walk, 4 + 2 + 9}}) {
    // A norm that runs for both views cannot be recomputed.
    TrainingOptions options =
        options_of(ModelKind::cnn_bn, has_views ? Recompute::none : Recompute::all);
    Dataset data = some_digits();
    options.batch_norm_by = by;
    options.window_passes = 8;
    if (has_views) {
      data.augmentation = changes_of(parse_augmentation("rotate"));
      add_views(data, Views::differ);
      options.objective = contrastive();
    }
    Observer nobody;
    // The state after three windows. The second window is stopped at the nth call of `stop`, unless
    // n is 0; then it is played again.
    int64_t asked = 0;
    const auto state_if_stopped = [&](int64_t n) {
      Training training(options, data, Device::cpu);
      training.play(0, 0, nobody);
      asked = 0;
      const StopRequest stop = [&] { return ++asked == n ? Stop::now : Stop::no; };
      if (n == 0) training.play(0, 1, nobody, stop);
      else REQUIRE_THROWS_AS(training.play(0, 1, nobody, stop), Stopped);
      if (n > 0) training.play(0, 1, nobody);
      training.play(0, 2, nobody);
      training.window().reports(Window::Wait::yes);
      return state_of_training(training);
    };
    const TrainingState whole = state_if_stopped(0);
    const int64_t askings = asked;
    REQUIRE(askings == walks * 3);  // micro-batches
    for (int64_t n = 1; n <= askings; ++n) {
      INFO(walks << " walks, stopped at asking " << n << " of " << askings);
      REQUIRE(state_if_stopped(n) == whole);
    }
  }
}

TEST_CASE("the peak of joined BatchNorms is predicted to the byte", "[plan][memory]") {
  using enum BatchNormBy;
  using enum Recompute;
  const Dataset data = some_digits();
  const Device device = test_device();
  const Dataset planned = plan_data({data, data}, device).train;
  const auto peak_of = [&](const TrainingOptions& options) {
    const Usage measured = peak_of_windows(options, data, device);
    const Usage predicted = planned_peak(options, planned, device);
    INFO("measured " << to_string(measured) << ", predicted " << to_string(predicted));
    REQUIRE(measured.bytes == predicted.bytes);
    return measured.total();
  };
  for (const ModelKind model : {ModelKind::cnn_bn, ModelKind::resnet_bn})
    for (const int64_t micro : {12, 5, 1}) {
      if (on_runner() && (model == ModelKind::resnet_bn || micro != 5)) continue;  // seconds each
      std::map<std::pair<Recompute, BatchNormBy>, size_t> peaks;
      for (const auto& [recompute, by] : {std::pair(none, keep),
                                          {sqrt, keep},
                                          {all, keep},
                                          {none, offload},
                                          {none, walk},
                                          {all, walk}}) {
        if (by == offload && device != Device::cuda) continue;
        TrainingOptions options = options_of(model, recompute);
        options.batches.micro = micro;
        options.batch_norm_by = by;
        options.window_passes = 50;
        INFO(name(model) << " in micro-batches of " << micro << ", " << int(by));
        peaks[{recompute, by}] = peak_of(options);
      }
      if (micro < 12) REQUIRE(peaks[{all, keep}] < peaks[{none, keep}]);
      if (micro == 1) REQUIRE(peaks[{none, walk}] < peaks[{all, keep}]);
      if (device == Device::cuda && micro < 12)
        REQUIRE(peaks[{none, offload}] < peaks[{none, walk}]);
    }
}

// It plans for the cpu, so the release build's run is enough.
TEST_CASE("a plan says how many walks it would take, and what is possible with walks",
          "[plan][full]") {
  const Dataset data = some_digits();
  const Datasets planned = plan_data({data, data}, Device::cpu);
  const auto plan = [&](ModelKind model) {
    const TrainingOptions options = options_of(model);
    return plan_windows(options, planned, Device::cpu, 1, all_choices(options, Device::cpu));
  };
  const Plan few = plan(ModelKind::cnn_bn), many = plan(ModelKind::resnet_bn);
  REQUIRE(few.too_many_walks.empty());
  // Strategy moments can walk a window, but not keep it. step-in-backward can do neither.
  REQUIRE(few.refused.size() == 1);
  REQUIRE_THAT(few.refused.front(), StartsWith("strategy step-in-backward: "));
  REQUIRE_THAT(
      many.too_many_walks,
      StartsWith("BatchNorms that see the window run 21 times in a forward, so to walk it takes 42 "
                 "passes more through the window: expected at most window-passes 4"));
}

TEST_CASE("a plan for cuda says what a window offloads to the host", "[plan]") {
  const Dataset data = some_digits();
  const Datasets planned = plan_data({data, data}, Device::cuda);
  const auto on_host = [&](BatchNormBy by, Recompute recompute) {
    TrainingOptions options = options_of(ModelKind::cnn_bn, recompute);
    options.batch_norm_by = by;
    const size_t least = 1;  // nothing fits: the plan takes single samples
    return plan_windows(options, planned, Device::cuda, least, only_choice(options))
        .smallest()
        .on_host;
  };
  const size_t none = on_host(BatchNormBy::offload, Recompute::none);
  const size_t all = on_host(BatchNormBy::offload, Recompute::all);
  // When all samples wait for a norm, all of them are on the host.
  REQUIRE(all >= golden_window_size * 28 * 28 * sizeof(float));
  REQUIRE(none > all);
  REQUIRE(on_host(BatchNormBy::keep, Recompute::none) == 0);
}

namespace {

// A network whose forward runs one norm twice.
struct Twice : Layer {
  Twice() : norm_(2) {
    declare("norm", norm_);
    declare("head", head_);
  }
  Tensor forward(Tensor x, const Pass& pass) const override {
    return head_(norm_(tanh(norm_(std::move(x), pass)), pass), pass);
  }
  std::string describe() const override { return "twice"; }

 private:
  BatchNorm norm_;
  Linear head_{2, 1};
};

}  // namespace

TEST_CASE("a norm that runs twice in a forward sees the window each time", "[passes]") {
  constexpr int64_t N = 6;
  Values values(2 * N);
  for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(3.0 * double(i));
  const Tensor x = Tensor::from(values, {N, 2}, Device::cpu);
  const auto run = [&](const MicroBatchSizes& split, BatchNormBy by, int64_t passes = 4) {
    Twice model;
    Parameters parameters = place(model, DType::f64, Device::cpu, 5);
    const auto optimizer = sgd(parameters, {});
    Window window(*optimizer, ScheduleOptions{.base = 0.5}, {.effective_batch_size = N});
    Game game({{.name = "",
                .window = window,
                .loss =
                    [&](const Samples& s, const Pass& pass) {
                      const Tensor y = model(s["x"], pass);
                      return mse_loss(y, Tensor::full(y.shape(), 1, y.dtype(), y.device()));
                    },
                .walk = batch_norm_walk(BatchNormOver::window, by, passes, nullptr)}});
    game.play(window_of(micro_batches_of({{{"x", x}}}, split)));
    REQUIRE(!window.reports(Window::Wait::yes).at(0).skipped);
    Values all = to_doubles(parameters.values());
    const Values statistics = to_doubles(parameters.buffers());
    all.insert(all.end(), statistics.begin(), statistics.end());
    return all;
  };
  const Values whole = run({6}, BatchNormBy::walk);
  for (const MicroBatchSizes& split : {MicroBatchSizes{3, 3}, {1, 4, 1}}) {
    const Values walked = run(split, BatchNormBy::walk);
    REQUIRE(largest_difference(walked, whole) <= 1e-14);
    REQUIRE(walked == run(split, BatchNormBy::keep));
    REQUIRE_ERROR(run(split, BatchNormBy::walk, 3),
                  "run 2 times in a forward, so to walk it takes 4 passes more");
  }
}

TEST_CASE("BatchNorms over the window are trained, resumed and refused by name", "[cli]") {
  const Folder folder;
  const std::string data = " --data " + few_digits().path().string();
  const std::string by_micro_batch =
      "train --model cnn-bn --width 0.5 --recompute all --micro-batch 3 --effective-batch 8 --seed "
      "4" +
      data;
  const std::string train = by_micro_batch + " --batch-norm window";
  if (on_runner()) {  // it takes seconds for a step
    succeed(train + " --steps 1 --save " + (folder / "kept"));
    for (const std::string by : {"walk", "offload"}) {
      succeed(train + " --batch-norm-by " + by + " --steps 1 --save " + (folder / by));
      REQUIRE(file_bytes(folder / "kept") == file_bytes(folder / by));
    }
    return;
  }
  const std::string said = succeed(train + " --steps 3 --save " + (folder / "whole"));
  REQUIRE_THAT(said, ContainsSubstring("predicted to the byte"));
  REQUIRE(said.find("warning") == std::string::npos);
  const std::string checkpoints = " --checkpoint-dir " + (folder / "checkpoints");
  succeed(train + " --steps 2" + checkpoints);
  succeed(train + " --steps 3 --resume" + checkpoints + " --save " + (folder / "resumed"));
  REQUIRE(file_bytes(folder / "whole") == file_bytes(folder / "resumed"));
  refuse(by_micro_batch + " --steps 3 --resume" + checkpoints,
         "batch-norm: window in the checkpoint, micro here");
  REQUIRE_THAT(
      succeed("plan --model cnn-bn --batch-norm window --effective-batch 8 --memory 1GiB" + data),
      ContainsSubstring("or strategy fused, not separate"));
  succeed(train + " --batch-norm-by walk --steps 3 --save " + (folder / "walked"));
  REQUIRE(file_bytes(folder / "whole") == file_bytes(folder / "walked"));
  refuse(train + " --batch-norm-by walk --window-passes 3 --steps 1",
         "so to walk it takes 4 passes more through the window");
  refuse(train + " --batch-norm-by offload --steps 1", "is on the host already");
  refuse(by_micro_batch + " --batch-norm micro --batch-norm-by walk --steps 1",
         "expected batch-norm-by keep, or");
  refuse(train + " --strategy separate --steps 1", "or strategy fused, not separate");
  refuse(train + " --on-overflow drop-micro-batch --steps 1", "no micro-batch can be left out");
  refuse(train + " --noise-scale --steps 1", "expected no noise scale");
  refuse("train --model cnn-gn --batch-norm window --steps 1" + data,
         "a network without BatchNorms to train");
}

}  // namespace interleaved_walk_test
}  // namespace accrue::test
