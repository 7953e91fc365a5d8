// Trainings of several ranks. Threads stand in for the processes; tests/apps/ranks.cpp runs real
// ones.

#include <map>

#include "images/contrastive.h"
#include "images/digits.h"
#include "images/segmentation.h"
#include "layers/models.h"
#include "tests/support/catch.h"
#include "tests/support/cli.h"
#include "tests/support/device.h"
#include "tests/support/files.h"
#include "tests/support/thread_ranks.h"
#include "train/memory_prediction.h"
#include "train/trainer.h"

namespace accrue::test {
namespace {

constexpr int64_t samples = 100, effective = 32;  // windows of 32, 32, 32 and 4

Dataset few_digits_of_ranks() {
  return make_digits(Split::train, {.train_size = samples, .test_size = 10});
}

TrainingOptions options_of_ranks(Ranks* ranks, int64_t micro, const std::string& directory = {}) {
  TrainingOptions options;
  options.model = model_factory({.kind = ModelKind::mlp_small, .dropout = 0.1, .width = 0.25});
  options.batches = {.micro = micro, .effective = effective};
  options.epochs = 2;
  options.checkpoints = {.directory = directory, .every = 3, .resume = !directory.empty()};
  options.optimizer = OptimizerKind::sgd;  // it does not amplify rounding
  options.schedule.base = 0.1;
  options.ranks = ranks;
  return options;
}

struct Seen : Observer {
  void on_step(const WindowReport& report) override { reports.push_back(report); }
  std::vector<WindowReport> reports;
};

struct Trained {
  std::vector<double> weights;
  std::vector<WindowReport> reports;
};

// Trains until the last rank, and no other, asks for a stop after `stop_after` windows.
Trained train_rank(Ranks* ranks, int64_t micro, const std::string& directory = {},
                   size_t stop_after = 1000) {
  Trainer trainer(options_of_ranks(ranks, micro, directory), few_digits_of_ranks(), Device::cpu);
  Seen seen;
  trainer.resume(seen);
  const bool asks = !ranks || ranks->rank() == ranks->count() - 1;
  trainer.run(seen, [&] {
    return asks && seen.reports.size() >= stop_after ? Stop::after_window : Stop::no;
  });
  return {to_doubles(trainer.training().parameters().values()), seen.reports};
}

Trained train_ranks(int R, int64_t micro, const std::string& directory = {},
                    size_t stop_after = 1000) {
  std::vector<Trained> all(static_cast<size_t>(R));
  run_ranks(R, [&](Ranks& ranks) {
    all[size_t(ranks.rank())] = train_rank(&ranks, micro, directory, stop_after);
  });
  for (const Trained& one : all) {
    REQUIRE(one.weights == all[0].weights);
    REQUIRE(one.reports.size() == all[0].reports.size());
    for (size_t i = 0; i < one.reports.size(); ++i)
      REQUIRE(one.reports[i].loss == all[0].reports[i].loss);
  }
  return all[0];
}

// Eight steps of 0.1. The gradients are sums of at most 100 + 784 terms below 1, and each addition
// rounds by 2^-24.
constexpr double most_apart = 8 * 0.1 * 884 * 0x1p-24;

}  // namespace

TEST_CASE("ranks train as one does, with any number of micro-batches", "[ranks]") {
  for (const int64_t micro : {32, 7, 4}) {
    const Trained one = train_rank(nullptr, micro);
    for (const int R : {1, 2, 3, 4}) {
      INFO(R << " ranks, micro-batches of " << micro);
      const Trained all = train_ranks(R, micro);
      REQUIRE(largest_difference(one.weights, all.weights) <= most_apart);
      REQUIRE(all.reports.size() == one.reports.size());
      for (size_t i = 0; i < all.reports.size(); ++i) {
        REQUIRE(all.reports[i].samples == one.reports[i].samples);
        REQUIRE(all.reports[i].micro_batches == one.reports[i].micro_batches);
        REQUIRE(std::abs(all.reports[i].loss - one.reports[i].loss) <= 10 * most_apart);
      }
    }
  }
}

TEST_CASE("ranks stop together and resume with the same bits, or as another number", "[ranks]") {
  const Trained whole = train_ranks(3, 5);
  for (const int R : {3, 2, 1}) {
    INFO("resumed by " << R);
    const TemporaryDirectory folder;
    REQUIRE(train_ranks(3, 5, folder.path().string(), 5).reports.size() == 5);
    const Trained rest = train_ranks(R, 5, folder.path().string());
    REQUIRE(rest.reports.size() == 3);
    if (R == 3) REQUIRE(rest.weights == whole.weights);
    else REQUIRE(largest_difference(rest.weights, whole.weights) <= most_apart);
  }
}

// The training has every kind of state, and 16-bit copies of the weights.
TEST_CASE(
    "a training whose optimizer is sharded has the bits and the checkpoints of one whose is not",
    "[ranks]") {
  struct Run {
    std::vector<double> weights, average;
    size_t reports = 0;
  };
  const auto run = [](int R, bool sharded, const std::string& directory, size_t stop_after) {
    std::vector<Run> all(static_cast<size_t>(R));
    run_ranks(R, [&](Ranks& ranks) {
      TrainingOptions options = options_of_ranks(&ranks, 5, directory);
      options.optimizer = OptimizerKind::adamw;
      options.schedule.base = 1e-2;
      options.precision = Precision::bf16;
      options.ema = 0.9;
      options.clip_norm = 0.5;
      options.shard_optimizer = sharded;
      Trainer trainer(options, few_digits_of_ranks(), Device::cpu);
      Seen seen;
      trainer.resume(seen);
      trainer.run(
          seen, [&] { return seen.reports.size() >= stop_after ? Stop::after_window : Stop::no; });
      Run& own = all[size_t(ranks.rank())];
      Training& training = trainer.training();
      own.weights = to_doubles(training.parameters().values());
      training.window().exchange_averages();
      own.average = to_doubles(training.parameters().values());
      own.reports = seen.reports.size();
    });
    for (const Run& one : all) {
      REQUIRE(one.weights == all[0].weights);
      REQUIRE(one.average == all[0].average);
    }
    return all[0];
  };
  const TemporaryDirectory whole_folder;
  const Run whole = run(3, false, whole_folder.path().string(), 5);
  const Run undisturbed = run(3, false, {}, 1000);
  const auto state_in = [](const TemporaryDirectory& folder) {
    return file_bytes((folder.path() / "step-00000005/state.safetensors").string());
  };
  for (const int R : {3, 2, 1}) {
    const TemporaryDirectory folder;
    const Run sharded = run(3, true, folder.path().string(), 5);
    REQUIRE(sharded.weights == whole.weights);
    REQUIRE(sharded.average == whole.average);
    REQUIRE(state_in(folder) == state_in(whole_folder));
    INFO("resumed by " << R);
    const TemporaryDirectory copy;
    std::filesystem::copy(folder.path(), copy.path(), std::filesystem::copy_options::recursive);
    const Run rest = run(R, true, folder.path().string(), 1000),
              other = run(R, false, copy.path().string(), 1000);
    REQUIRE(rest.reports == 3);
    REQUIRE(rest.weights == other.weights);
    REQUIRE(rest.average == other.average);
    if (R == 3) REQUIRE(rest.weights == undisturbed.weights);
    if (R == 3) REQUIRE(rest.average == undisturbed.average);
  }
}

TEST_CASE("ranks of other settings are refused", "[ranks]") {
  REQUIRE_ERROR(run_ranks(2, [](Ranks& ranks) { train_rank(&ranks, 5 + ranks.rank()); }),
                "expected the same settings and data on all");
}

TEST_CASE("ranks share the scored samples, and all have the score of one", "[ranks]") {
  for (const int64_t test_size : {int64_t{10}, int64_t{3}, int64_t{2}}) {
    const auto score_of = [&](Ranks* ranks, int64_t micro) {
      Training training(options_of_ranks(nullptr, micro), few_digits_of_ranks(), Device::cpu);
      const Dataset scored =
          make_digits(Split::test, {.train_size = samples, .test_size = test_size});
      return evaluate(training.model(), training.objective(), scored, micro, DType::f32,
                      Device::cpu, ranks);
    };
    const Score one = score_of(nullptr, 4);
    for (const int R : {1, 2, 3, 4}) {
      INFO(test_size << " samples, " << R << " ranks");
      std::vector<Score> all(static_cast<size_t>(R));
      run_ranks(R, [&](Ranks& ranks) {
        // Each rank takes micro-batches of another size.
        all[size_t(ranks.rank())] = score_of(&ranks, 1 + ranks.rank());
      });
      for (const Score& score : all) {
        REQUIRE(score.loss == all[0].loss);
        REQUIRE(score.describe() == all[0].describe());
      }
      REQUIRE(all[0].samples == test_size);
      REQUIRE(all[0].loss == Approx(one.loss).epsilon(1e-6));
    }
  }
}

namespace {

// The first of several ranks. The others contribute nothing, or the same as the first.
class FirstRank : public Ranks {
 public:
  enum class Others { idle, alike };
  explicit FirstRank(int count, Others others = Others::idle) : count_(count), others_(others) {}
  int rank() const override { return 0; }
  int count() const override { return count_; }
  void gather(void* all, const void* own, size_t bytes) override {
    std::memset(all, 0, bytes * static_cast<size_t>(count_));
    for (int rank = 0; rank < (others_ == Others::alike ? count_ : 1); ++rank)
      std::memcpy(static_cast<char*>(all) + static_cast<size_t>(rank) * bytes, own, bytes);
  }
  void broadcast(void* data, size_t bytes, int from) override {
    if (from > 0) std::memset(data, 0, bytes);
  }

 protected:
  void begin_exchange(Device, std::span<const Block> received,
                      std::span<const Block> sent) override {
    for (size_t r = 1; r < received.size(); ++r) std::ranges::fill(received[r], std::byte{0});
    if (received[0].data() != sent[0].data()) std::ranges::copy(sent[0], received[0].begin());
  }
  bool exchanged(Wait) override { return true; }

 private:
  const int count_;
  const Others others_;
};

Dataset gray_photos(Split split, const BuiltInOptions& sizes) {
  const int64_t n = split == Split::train ? sizes.train_size : sizes.test_size;
  const auto bytes = [&](const Shape& shape) {
    return Tensor::from(std::vector<uint8_t>(static_cast<size_t>(shape.numel()), 255), shape);
  };
  Dataset photos{"gray photos", "gray photos"};
  photos.fields = {{"images", bytes({n, 3, 16, 16}), Encoding::pixel},
                   {"masks", bytes({n, 1, 16, 16}), Encoding::mask}};
  return photos;
}

// The peak of an epoch, including the score at its end if there is one.
Usage peak_of_epoch(const TrainingOptions& options, const Datasets& data) {
  Training training(options, data.train, Device::cpu);
  ledger(Device::cpu).reset_peak();
  Seen seen;
  for (int64_t window = 0; window < training.loader().windows_per_epoch(); ++window)
    training.play(0, window, seen);
  if (options.eval_every == each_epoch)
    evaluate(training.model(), training.objective(), data.test, options.batches.micro,
             training.parameters().compute_dtype(), Device::cpu, options.ranks);
  return ledger(Device::cpu).peak();
}

}  // namespace

TEST_CASE("the first rank's memory is predicted to the byte", "[ranks]") {
  for (const int R : {1, 2, 3}) {
    FirstRank first(R);
    const auto compare = [&](TrainingOptions options, auto make) {
      const BuiltInOptions sizes{.train_size = 12, .test_size = 20};
      const Datasets data{make(Split::train, sizes), make(Split::test, sizes)};
      INFO(R << " ranks, " << options.batches.describe());
      options.ranks = &first;
      options.epochs = 1;
      const Usage predicted = predict_peak(options, data, Device::cpu),
                  measured = peak_of_epoch(options, data);
      INFO("predicted " << to_string(predicted) << ", measured " << to_string(measured));
      REQUIRE(predicted.bytes == measured.bytes);
      // No rank needs more than the plan.
      const Datasets planned = plan_data(data, Device::cpu);
      REQUIRE(planned_peak(options, planned.train, Device::cpu, &planned.test).total() >=
              predicted.total());
    };
    // The score needs the most memory. If there are several ranks, each scores less than a
    // micro-batch.
    TrainingOptions scored;
    scored.model = model_factory({.kind = ModelKind::mlp_small, .width = 0.25});
    scored.batches = {.micro = 12, .effective = 12};
    scored.eval_every = each_epoch;
    compare(scored, make_digits);
    scored.eval_every = 2;  // more than the number of windows
    compare(scored, make_digits);
    // If there are several ranks, the first does not get the remainder. The remainder needs more
    // memory than a whole micro-batch of 2 samples.
    TrainingOptions remainder;
    remainder.model =
        model_factory({.kind = ModelKind::unet, .depth = 2, .image = {3, 16, 16}, .classes = 1});
    remainder.objective = segmentation();
    remainder.precision = Precision::fp16;
    remainder.recompute = Recompute::sqrt;
    remainder.batches = {.micro = 2, .effective = 5};
    compare(remainder, gray_photos);
  }
}

TEST_CASE("the memory of a loss over all ranks' windows is predicted to the byte", "[ranks]") {
  const BuiltInOptions sizes{.train_size = 24, .test_size = 1};
  Datasets digits{make_digits(Split::train, sizes), make_digits(Split::test, sizes)};
  for (Dataset* each : {&digits.train, &digits.test}) add_views(*each, Views::equal);
  size_t alone = 0;
  for (const int R : {1, 2, 3}) {
    FirstRank first(R, FirstRank::Others::alike);
    TrainingOptions options;
    options.model = model_factory({.kind = ModelKind::mlp_small, .width = 0.25, .classes = 8});
    options.objective = contrastive({.answers = 8, .classes = 10});
    options.batches = {.micro = 2, .effective = int64_t{4} * R};
    options.epochs = 1;
    options.eval_every.reset();
    options.ranks = &first;
    const Usage predicted = predict_peak(options, digits, Device::cpu),
                measured = peak_of_epoch(options, digits);
    INFO(R << " ranks: predicted " << to_string(predicted) << ", measured " << to_string(measured));
    REQUIRE(predicted.bytes == measured.bytes);
    // Each rank needs the same memory for its own part, and holds the answers of all.
    if (R == 1) alone = predicted.total();
    else REQUIRE(predicted.total() > alone);
  }
}

// A rank may have smaller micro-batches because its memory ran out.
TEST_CASE("ranks may have micro-batches of their own sizes", "[ranks]") {
  const Trained one = train_rank(nullptr, 8);
  for (const int R : {2, 3, 4}) {
    std::vector<std::vector<double>> weights(static_cast<size_t>(R));
    run_ranks(R, [&](Ranks& ranks) {
      TrainingOptions options = options_of_ranks(&ranks, 8);
      options.share_unit = 8;
      options.batches.micro = ranks.rank() == 0 ? 8 : 3;
      const Dataset data = few_digits_of_ranks();
      Training training(options, data, Device::cpu);
      Seen seen;
      for (int64_t epoch = 0; epoch < 2; ++epoch)
        for (int64_t window = 0; window < 4; ++window) training.play(epoch, window, seen);
      weights[size_t(ranks.rank())] = to_doubles(training.parameters().values());
    });
    for (const auto& of_rank : weights) {
      REQUIRE(of_rank == weights[0]);
      REQUIRE(largest_difference(one.weights, of_rank) <= most_apart);
    }
  }
}

}  // namespace accrue::test
