// Rows in pieces, as the program runs them: the memory that they take, running out of memory, and
// plans. tests/text/language_modeling.cpp tests that they compute the same.

#include "core/ledger.h"
#include "core/limit_scope.h"
#include "core/random.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"
#include "tests/support/op_table.h"
#include "text/language_modeling.h"
#include "text/models.h"
#include "train/memory_prediction.h"
#include "train/plan.h"
#include "train/training.h"

namespace accrue::test {
namespace {

constexpr int64_t V = 29, row = 64, rows = 4;

// Rows of random tokens; each row is a document.
Dataset random_rows(int64_t T, Device device) {
  std::vector<int32_t> tokens(static_cast<size_t>(rows * T)), positions, labels;
  RandomStream random(3);
  for (int32_t& token : tokens) token = static_cast<int32_t>(random.uniform(0, V - 0.5f));
  for (int64_t i = 0; i < rows * T; ++i) positions.push_back(static_cast<int32_t>(i % T));
  labels.assign(tokens.begin() + 1, tokens.end());
  labels.push_back(0);
  const auto field = [&](const char* name, const std::vector<int32_t>& values, int64_t classes) {
    return Field{.name = name,
                 .values = Tensor::from(values, {rows, T}, device),
                 .encoding = Encoding::index,
                 .classes = classes};
  };
  return {.name = "random",
          .source = "",
          .fields = {field("tokens", tokens, V), field("positions", positions, T),
                     field("labels", labels, V)}};
}

TrainingOptions options_of_rows(int64_t T, int64_t piece) {
  TrainingOptions options;
  options.model = [T] {
    return make_text_model(
        Gpt2Options{.vocabulary = V, .context = T, .width = 32, .layers = 3, .heads = 2});
  };
  options.objective = language_modeling();
  options.batches = {.micro = 1, .effective = 2, .piece = piece};
  options.schedule.base = 1e-2;
  return options;
}

struct Played {
  Values weights;
  std::vector<Halving> halvings;
};

Played play(const TrainingOptions& options) {
  struct Halvings : Observer {
    void on_halving(const Halving& halving) override { all.push_back(halving); }
    std::vector<Halving> all;
  } halvings;
  Training training(options, random_rows(row, test_device()), test_device());
  for (int64_t window = 0; window < 2; ++window) training.play(0, window, halvings);
  for (const StepReport& report : training.window().reports(Window::Wait::yes))
    REQUIRE(!report.skipped);
  return {to_doubles(training.parameters().values()), halvings.all};
}

size_t activations_of(int64_t T, int64_t piece) {
  return planned_peak(options_of_rows(T, piece), random_rows(T, Device::meta),
                      test_device())[Category::activations];
}

}  // namespace

TEST_CASE("a row in pieces needs the activations of a piece", "[text]") {
  // The memory of keys, values and their gradients comes on top.
  constexpr size_t of_a_token = 3 * 4 * 32 * sizeof(float);
  const size_t of_a_row = activations_of(row, 0);
  for (const int64_t times : {4, 16})
    REQUIRE(activations_of(times * row, row) <= of_a_row + times * row * of_a_token + 4096);
  REQUIRE(activations_of(16 * row, 0) > 12 * of_a_row);
}

TEST_CASE("a row that does not fit is run in pieces", "[text]") {
  TrainingOptions options = options_of_rows(row, 0);
  const auto peak = [&](int64_t piece) {
    const Dataset planned = random_rows(row, meta_of(test_device()));
    return planned_peak(options_of_rows(row, piece), planned, test_device()).total();
  };
  REQUIRE(peak(32) < peak(0));
  REQUIRE(peak(16) < peak(32));
  for (const int64_t piece : {32, 16}) {
    const Played expected = play(options_of_rows(row, piece));
    Played split;
    {
      const LimitScope limit(test_device(), ledger(test_device()).current().total() + peak(piece));
      options.on_oom = OnOom::split;
      split = play(options);
    }
    REQUIRE(split.weights == expected.weights);
    REQUIRE(split.halvings.size() == (piece == 32 ? 1 : 2));
    REQUIRE(split.halvings.back().after.piece == piece);
    REQUIRE(split.halvings.back().after.describe() ==
            fmt::format("2 (1 x 2, in pieces of {})", piece));
  }
}

TEST_CASE("a plan cuts rows that do not fit", "[text]") {
  const TrainingOptions options = options_of_rows(row, 0);
  const Dataset data = random_rows(row, Device::cpu);
  const Datasets planned = plan_data({data, data}, test_device());
  const auto plan = [&](size_t memory) {
    return plan_windows(options, planned, test_device(), memory, only_choice(options));
  };
  const auto peak = [&](int64_t piece) {
    return planned_peak(options_of_rows(row, piece), planned.train, test_device(), &planned.test)
        .total();
  };
  for (const int64_t piece : {32, 16}) {
    const Plan found = plan(peak(piece));
    const Alternative* best = found.recommended();
    REQUIRE(best);
    REQUIRE(best->batches.piece == piece);
    REQUIRE(best->peak.total() == peak(piece));
    // All pieces except the last are computed once more, and each piece reads the weights.
    REQUIRE(best->relative_cost > 1.1);
    REQUIRE(best->relative_cost < 2);
    REQUIRE(plan(peak(piece) - 1).alternatives.front().batches.piece != piece);
  }
  REQUIRE(plan(peak(0)).recommended()->batches.piece == 0);
}

}  // namespace accrue::test
