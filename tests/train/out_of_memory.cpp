// Memory that runs out in the middle of a run: --on-oom split continues as if the user had asked
// for the smaller micro-batch, or there is a clear error. There is never a leak or a wrong weight.

#include <map>
#include <set>

#include "core/random.h"
#include "images/digits.h"
#include "layers/models.h"
#include "tests/support/allocation_failure.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"
#include "train/training.h"

namespace accrue::test {
namespace {

// Windows of 12, 12 and 10 samples in micro-batches of 5 and, halved, of 3.
constexpr int64_t E = 12, m = 5, half = 3;
constexpr int64_t windows_per_epoch = 3, epochs = 2;

// Digits that no run allocates: a test case makes them once. DigitsOfTestCase frees them at its
// end.
std::optional<Dataset> known_digits;
struct DigitsOfTestCase {
  ~DigitsOfTestCase() { known_digits.reset(); }
};

const Dataset& kept_digits() {
  if (!known_digits)
    known_digits =
        make_digits(Split::train, {.train_size = 12 + 12 + 10, .test_size = 1}).to(test_device());
  return *known_digits;
}

TrainingOptions options_of_split(ModelKind model, double dropout = 0,
                                 Strategy strategy = Strategy::fused) {
  ModelOptions network = default_model(model);
  network.dropout = dropout;
  if (on_runner() || sanitized()) network.width = 0.25;
  TrainingOptions options;
  options.model = model_factory(network);
  options.batches.effective = E;
  options.strategy = strategy;
  options.epochs = epochs;
  options.on_oom = OnOom::split;
  options.schedule.base = 1e-2;
  return options;
}

// Every number in the final state of a run, bit for bit.
using State = std::vector<std::vector<double>>;

State state_of(Training& training) {
  State state{to_doubles(training.parameters().values()),
              to_doubles(training.parameters().buffers())};
  for (const auto& [name, tensor] : training.optimizer().state())
    state.push_back(to_doubles(tensor));
  return state;
}

struct Run {
  State state;
  std::vector<Halving> halvings;
  std::string error;  // empty unless it failed
};

struct Halvings : Observer {
  explicit Halvings(std::vector<Halving>& seen) : all(seen) {}
  void on_halving(const Halving& halving) override { all.push_back(halving); }
  std::vector<Halving>& all;
};

// Trains in the same way as the program.
Run run(TrainingOptions options, int64_t micro) {
  Run result;
  options.batches.micro = micro;
  Halvings halvings(result.halvings);
  try {
    Training training(options, kept_digits(), test_device());
    if (training.batches().micro < micro)
      result.halvings.push_back({0, 0, {micro, E}, training.batches()});
    for (int64_t epoch = 0; epoch < epochs; ++epoch)
      for (int64_t window = 0; window < windows_per_epoch; ++window)
        training.play(epoch, window, halvings);
    for (const StepReport& report : training.window().reports(Window::Wait::yes))
      REQUIRE(!report.skipped);
    result.state = state_of(training);
  } catch (const OutOfMemory& error) {
    result.error = error.what();
  }
  return result;
}

// A run without failures. It makes its own loaders: micro-batches of `micro` before window
// `change`, counted over the epochs, and of `then` from there on.
State reference(const TrainingOptions& options, int64_t micro, int64_t change, int64_t then) {
  TrainingOptions plain = options;
  plain.cuda_graphs = Graphs::off;
  plain.batches.micro = micro;
  Training training(plain, kept_digits(), test_device());
  const auto loader_of = [&](int64_t size) {
    return std::make_unique<Loader>(kept_digits(), LoaderOptions{.effective_batch_size = E,
                                                                 .micro_batch_size = size,
                                                                 .seed = plain.seed,
                                                                 .device = test_device()});
  };
  const auto before = loader_of(micro), after = loader_of(then);
  for (int64_t w = 0; w < epochs * windows_per_epoch; ++w) {
    Loader& loader = w < change ? *before : *after;
    const int64_t epoch = w / windows_per_epoch;
    loader.start_epoch(epoch, w % windows_per_epoch);
    for (bool ended = false; !ended;) {
      const MicroBatch* part = loader.next();
      training.micro_step(*part, epoch);
      ended = part->ends_window;
    }
    training.window().step();
  }
  return state_of(training);
}

State cached_reference(const std::string& name, const TrainingOptions& options, int64_t change,
                       int64_t then) {
  static std::map<std::tuple<std::string, int64_t, int64_t>, State> known;
  const auto key = std::tuple{name, change, then};
  if (!known.contains(key)) known[key] = reference(options, m, change, then);
  return known[key];
}

int64_t allocations_of(const std::function<void()>& work) {
  const int64_t before = allocations();
  work();
  return allocations() - before;
}

// The numbers of allocations at the beginning of a run: in construction, in the first forward, and
// in each of the first micro-batches.
struct Counts {
  int64_t construction = 0, forward = 0;
  std::vector<int64_t> micro_batches;
};

Counts count_allocations(const TrainingOptions& options) {
  Counts counts;
  kept_digits();  // made once, before the run that is counted
  std::unique_ptr<Training> training;
  counts.construction = allocations_of([&] {
    TrainingOptions run = options;
    run.batches.micro = m;
    training = std::make_unique<Training>(run, kept_digits(), test_device());
  });
  for (int64_t w = 0; w < windows_per_epoch; ++w) {
    counts.micro_batches.push_back(0);
    if (w == 0)
      counts.micro_batches.back() += allocations_of([&] { training->loader().start_epoch(0); });
    for (bool ended = false; !ended; counts.micro_batches.push_back(0)) {
      const MicroBatch* part = nullptr;
      counts.micro_batches.back() += allocations_of([&] {
        part = training->loader().next();
        training->micro_step(*part, 0);
      });
      ended = part->ends_window;
    }
    counts.micro_batches.pop_back();
    training->window().step();
  }
  const MicroBatch* part = (training->loader().start_epoch(1), training->loader().next());
  counts.forward = allocations_of([&] {
    const Pass pass{.seed = options.seed, .epoch = 1, .samples = part->indices};
    training->model()((*part)["images"], pass);
  });
  return counts;
}

struct Case {
  std::string name;
  TrainingOptions options;
};

std::vector<Case> cases() {
  const std::vector<Case> all{
      {"dropout", options_of_split(ModelKind::mlp_small, 0.3)},
      {"batch norm", options_of_split(ModelKind::cnn_bn)},
      {"separate", options_of_split(ModelKind::mlp_small, 0, Strategy::separate)},
      {"group norm, dropout, separate",
       options_of_split(ModelKind::cnn_gn, 0.2, Strategy::separate)}};
  if (on_runner()) return {all[0], all[2]};
  return all;
}

}  // namespace

TEST_CASE("a window that fails in the middle of backward is run again in halves", "[oom]") {
  const DigitsOfTestCase digits_until_the_end;
  for (auto [name, options] : cases()) {
    INFO(name);
    options.cuda_graphs = Graphs::off;  // replayed work allocates nothing
    // A window has three micro-batches. The failure is in the second of the third window, halfway
    // through backward.
    const Counts counts = count_allocations(options);
    int64_t before = counts.construction;
    for (size_t i = 0; i < 7; ++i) before += counts.micro_batches[i];
    const int64_t backward = counts.micro_batches[7] - counts.forward;
    REQUIRE(backward > 1);
    const size_t in_use = ledger(test_device()).current().total();
    const AllocationFailure failure(before + counts.forward + backward / 2);
    const Run run = test::run(options, m);
    REQUIRE(failure.happened());
    INFO(run.error);
    REQUIRE(run.error.empty());
    REQUIRE(run.halvings.size() == 1);
    REQUIRE(run.halvings[0].epoch == 0);
    REQUIRE(run.halvings[0].window == 2);
    REQUIRE(run.halvings[0].after.micro == half);
    REQUIRE(run.halvings[0].after.effective == E);
    REQUIRE(ledger(test_device()).current().total() == in_use);
    REQUIRE(run.state == reference(options, m, 2, half));
    // The comparison would notice a split that comes a window late.
    REQUIRE(run.state != reference(options, m, 3, half));
  }
}

// While work is recorded, cached memory cannot go back to the driver to make room, because that
// would have to wait for the device.
TEST_CASE("a device that is full while a micro-step is recorded splits, and loses no memory",
          "[oom]") {
  if (test_device() != Device::cuda) return;
  const DigitsOfTestCase digits_until_the_end;
  const TrainingOptions options = options_of_split(ModelKind::mlp_small);
  // The first micro-step of the second window is the first to be recorded.
  const Counts counts = count_allocations(options);
  int64_t before = counts.construction;
  for (size_t i = 0; i < 3; ++i) before += counts.micro_batches[i];
  REQUIRE(counts.micro_batches[3] > 2);
  REQUIRE(counts.micro_batches[6] == 0);  // replayed
  cuda::blocks().release_cached();
  const Reserve at_first = cuda::blocks().statistics();
  cuda::deallocate(cuda::allocate(size_t{1} << 20));  // cached memory that could be returned
  const AllocationFailure failure(before + counts.micro_batches[3] / 2, Failing::on_full_device);
  const Run run = test::run(options, m);
  REQUIRE(failure.happened());
  INFO(run.error);
  REQUIRE(run.error.empty());
  REQUIRE(run.halvings.size() == 1);
  REQUIRE(run.halvings[0].window == 1);
  REQUIRE(run.state == reference(options, m, 1, half));
  // The test does not compare the device's free memory, because the driver keeps some for graphs.
  REQUIRE(cuda::blocks().statistics().allocated == at_first.allocated);
  cuda::blocks().release_cached();
  REQUIRE(cuda::blocks().statistics().reserved == at_first.reserved);
}

TEST_CASE("a failure in the first window leaves a run of the smaller micro-batch", "[oom]") {
  const DigitsOfTestCase digits_until_the_end;
  for (const auto& [name, options] : cases()) {
    INFO(name);
    const Counts counts = count_allocations(options);
    const AllocationFailure failure(counts.construction + counts.micro_batches[0] + 2);
    const Run run = test::run(options, m);
    REQUIRE(failure.happened());
    REQUIRE(run.error.empty());
    REQUIRE(run.state == reference(options, half, 0, half));
  }
}

TEST_CASE("allocations that fail at random places", "[oom]") {
  const DigitsOfTestCase digits_until_the_end;
  const int failures = on_runner() ? (reduced() ? 10 : 24) : 200;
  RandomStream random(17);
  std::set<std::string> outcomes;
  kept_digits();
  const size_t in_use = ledger(test_device()).current().total();
  std::map<std::string, int64_t> totals;
  const std::vector<Case> all = cases();
  for (int i = 0; i < failures; ++i) {
    // Only one failure in four is in a network of convolutions, because these take most of the
    // time.
    const size_t conv = i % 4 == 3 ? 1 + static_cast<size_t>(i) / 4 % 2 * 2 : 0;
    const size_t number = conv > 0 ? conv : static_cast<size_t>(i) % 2 * 2;
    const auto& [name, options] = all[number % all.size()];
    if (!totals.contains(name)) totals[name] = allocations_of([&] { run(options, m); });
    const auto n = 1 + int64_t(random.below(static_cast<uint32_t>(totals[name])));
    INFO(name << ", allocation " << n << " of " << totals[name]);
    const AllocationFailure failure(n);
    const Run run = test::run(options, m);
    INFO(run.error);
    REQUIRE(failure.happened());
    REQUIRE(ledger(test_device()).current().total() == in_use);
    if (!run.error.empty()) {
      REQUIRE_THAT(run.error, ContainsSubstring("out of memory on"));
      outcomes.insert("error");
      continue;
    }
    REQUIRE(run.halvings.size() == 1);
    const Halving& halving = run.halvings[0];
    REQUIRE(halving.before.micro == m);
    REQUIRE(halving.after.micro == half);
    outcomes.insert(fmt::format("window {}", halving.window));
    REQUIRE(run.state == cached_reference(name, options,
                                          halving.epoch * windows_per_epoch + halving.window,
                                          half));
  }
  // The outcomes are an error, or a split in one of three windows. On a GPU the last windows only
  // replay recorded work, which allocates nothing.
  if (!on_runner()) REQUIRE(outcomes.size() >= (test_device() == Device::cuda ? 2 : 3));
}

TEST_CASE("memory that never suffices ends in an error, at one sample", "[oom]") {
  const DigitsOfTestCase digits_until_the_end;
  for (const auto& [name, options] : cases()) {
    INFO(name);
    const Counts counts = count_allocations(options);
    const size_t in_use = ledger(test_device()).current().total();
    for (const int64_t n : {int64_t{1}, counts.construction, counts.construction + 3}) {
      const AllocationFailure failure(n, Failing::on);
      const Run run = test::run(options, m);
      REQUIRE_THAT(run.error, ContainsSubstring("out of memory on"));
      REQUIRE(ledger(test_device()).current().total() == in_use);
    }
  }
}

TEST_CASE("a step allocates nothing", "[oom]") {
  const DigitsOfTestCase digits_until_the_end;
  for (auto [name, options] : cases()) {
    INFO(name);
    options.batches.micro = E;
    Training training(options, kept_digits(), test_device());
    training.loader().start_epoch(0);
    for (int w = 0; w < windows_per_epoch; ++w) {
      training.micro_step(*training.loader().next(), 0);
      REQUIRE(allocations_of([&] { training.window().enqueue_step(); }) == 0);
    }
  }
}

TEST_CASE("without --on-oom split the error stands", "[oom]") {
  const DigitsOfTestCase digits_until_the_end;
  TrainingOptions options = options_of_split(ModelKind::mlp_small);
  options.on_oom = OnOom::fail;
  const Counts counts = count_allocations(options);
  const AllocationFailure failure(counts.construction + 2);
  const Run run = test::run(options, m);
  REQUIRE_THAT(run.error, ContainsSubstring("out of memory on"));
  REQUIRE(run.halvings.empty());
}

}  // namespace accrue::test
