// Training in float64 (--precision fp64), by which everything else can be checked.

#include <algorithm>
#include <cmath>

#include "core/random.h"
#include "images/digits.h"
#include "images/shapes.h"
#include "layers/layers.h"
#include "layers/models.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"
#include "tests/support/files.h"
#include "tests/support/objective.h"
#include "tests/support/thread_ranks.h"
#include "tests/support/training_state.h"
#include "text/language_modeling.h"
#include "text/models.h"
#include "train/memory_prediction.h"
#include "train/trainer.h"
#include "train/weights.h"

namespace accrue::test::float64 {
namespace {

using Numbers = std::vector<double>;

constexpr int64_t effective = 8, windows = 5, vocabulary = 29, row = 24;

// Rows of random tokens, a document each.
Dataset random_rows() {
  const int64_t N = effective * windows;
  std::vector<int32_t> tokens, positions, labels;
  RandomStream random(3);
  for (int64_t i = 0; i < N * row; ++i) {
    tokens.push_back(static_cast<int32_t>(random.below(vocabulary)));
    positions.push_back(static_cast<int32_t>(i % row));
  }
  labels.assign(tokens.begin() + 1, tokens.end());
  labels.push_back(0);
  const auto field = [&](const char* name, const std::vector<int32_t>& values, int64_t classes) {
    return Field{.name = name,
                 .values = Tensor::from(values, {N, row}),
                 .encoding = Encoding::index,
                 .classes = classes};
  };
  return {.name = "random",
          .source = "",
          .fields = {field("tokens", tokens, vocabulary), field("positions", positions, row),
                     field("labels", labels, vocabulary)}};
}

struct Task {
  std::string name;
  Dataset data;
  TrainingOptions options;
};

Task task_of(const std::string& name) {
  Task task{.name = name, .data = {}, .options = {}};
  TrainingOptions& o = task.options;
  if (name == "gpt-tiny" || name == "llama-tiny") {
    task.data = random_rows();
    o.model = [is_gpt2 = name == "gpt-tiny"] {
      if (is_gpt2)
        return make_text_model(Gpt2Options{
            .vocabulary = vocabulary, .context = row, .width = 32, .layers = 2, .heads = 2});
      return make_text_model(LlamaOptions{.vocabulary = vocabulary,
                                          .width = 32,
                                          .hidden = 48,
                                          .layers = 2,
                                          .heads = 4,
                                          .groups = 2});
    };
    o.objective = language_modeling();
  } else {
    const ModelKind kind = model_names().at(name);
    const BuiltInOptions sizes{.train_size = effective * windows, .test_size = 3};
    const bool has_masks = kind == ModelKind::unet;
    task.data = has_masks ? make_shapes(Split::train, sizes) : make_digits(Split::train, sizes);
    o.model = model_factory({.kind = kind, .width = 0.5, .classes = has_masks ? 1 : 10});
    o.objective = objective_on(task.data);
    if (name.ends_with("-bn")) o.batch_norm = BatchNormOver::window;
  }
  o.precision = Precision::fp64;
  o.eps = 1e-3;
  o.batches = {.micro = effective, .effective = effective};
  return task;
}

const std::vector<std::string> all_names{"mlp",    "cnn",  "cnn-gn",   "resnet",
                                         "cnn-bn", "unet", "gpt-tiny", "llama-tiny"};

// Numbers [P] of parameters, without the gaps between these, which differ by type.
Numbers without_gaps(const Tensor& arena, const Parameters& parameters) {
  const Numbers all = to_doubles(arena);
  Numbers found;
  for (const auto& entry : parameters.entries()) {
    const auto [begin, end] = entry.range();
    found.insert(found.end(), all.begin() + begin, all.begin() + end);
  }
  return found;
}

struct TrainingOutcome {
  Numbers gradient, weights, losses, norms;
};

// The gradient of the first window, and what five steps of Adam leave.
TrainingOutcome train(const Task& task, TrainingOptions options) {
  TrainingOutcome outcome;
  options.batches.effective = effective;
  Training training(options, task.data, Device::cpu);
  Game& game = training.game();
  for (int64_t window = 0; window < windows; ++window) {
    const Game::Turn turn = game.all_turns().front();
    game.accumulate(turn, window_of(training.loader(), 0, window), training.pass(0),
                    training.variant(0));
    // Other strategies have the sum elsewhere.
    if (window == 0 && options.strategy == Strategy::fused)
      outcome.gradient = without_gaps(training.parameters().gradients(), training.parameters());
    game.step(turn);
    game.end_window();
  }
  for (const StepReport& report : training.window().reports(Window::Wait::yes)) {
    REQUIRE(!report.skipped);
    outcome.losses.push_back(report.loss);
    outcome.norms.push_back(report.grad_norm);
  }
  outcome.weights = to_doubles(training.parameters().values());
  for (const auto& [name, tensor] : training.game().state_dict().tensors)
    if (is_floating(tensor.dtype())) {
      CAPTURE(name);
      REQUIRE(tensor.dtype() == DType::f64);
    }
  for (const auto& [name, tensor] : training.named_tensors()) REQUIRE(tensor.dtype() == DType::f64);
  return outcome;
}

double largest(const Numbers& x) {
  double most = 0;
  for (const double value : x) most = std::max(most, std::abs(value));
  return most;
}

// The largest difference, of the largest number of the first.
double relative_difference(const Numbers& x, const Numbers& y) {
  REQUIRE(x.size() == y.size());
  double most = 0;
  for (size_t i = 0; i < x.size(); ++i) most = std::max(most, std::abs(x[i] - y[i]));
  return most / largest(x);
}

// Weights that a step in float32 would have made are 1e-8 from these.
constexpr double gradient_bound = 2e-14, weight_bound = 1e-12;

void require_same(const TrainingOutcome& whole, const TrainingOutcome& other) {
  if (!whole.gradient.empty() && !other.gradient.empty()) {
    const double apart = relative_difference(whole.gradient, other.gradient);
    CAPTURE(apart);
    REQUIRE(apart <= gradient_bound);
  }
  const double apart = relative_difference(whole.weights, other.weights);
  CAPTURE(apart);
  REQUIRE(apart <= weight_bound);
  REQUIRE(relative_difference(whole.losses, other.losses) <= weight_bound);
}

}  // namespace

TEST_CASE("in float64 every split is the whole batch within its rounding", "[float64]") {
  for (const std::string& name : all_names) {
    CAPTURE(name);
    const Task task = task_of(name);
    const TrainingOutcome whole = train(task, task.options);
    for (const int64_t micro : {3, 1}) {
      CAPTURE(micro);
      TrainingOptions split = task.options;
      split.batches.micro = micro;
      require_same(whole, train(task, split));
    }
    // Float32 rounds where float64 does not.
    TrainingOptions narrow = task.options;
    narrow.precision = Precision::fp32;
    Training training(narrow, task.data, Device::cpu);
    training.game().accumulate(training.game().all_turns().front(),
                               window_of(training.loader(), 0, 0), training.pass(0), 0);
    const double apart = relative_difference(
        whole.gradient, without_gaps(training.parameters().gradients(), training.parameters()));
    CAPTURE(apart);
    REQUIRE(apart > 1e-9);
    REQUIRE(apart < 1e-3);
  }
}

TEST_CASE("in float64 strategies, recomputation and walks agree", "[float64]") {
  for (const std::string name : {"cnn-bn", "gpt-tiny"}) {
    CAPTURE(name);
    const Task task = task_of(name);
    const TrainingOutcome whole = train(task, task.options);
    for (const Strategy strategy : {Strategy::separate, Strategy::moments}) {
      // Its loss is a mean over tokens.
      if (strategy == Strategy::moments && name == "gpt-tiny") continue;
      TrainingOptions o = task.options;
      o.strategy = strategy;
      o.batches.micro = 3;
      if (name == "cnn-bn") o.batch_norm_by = BatchNormBy::walk;
      CAPTURE(name_in(strategy_names(), strategy));
      require_same(train(task, o), train(task, o));
      if (strategy == Strategy::separate) require_same(whole, train(task, o));
    }
    for (const Recompute recompute : {Recompute::sqrt, Recompute::all}) {
      TrainingOptions o = task.options;
      o.recompute = recompute;
      o.batches.micro = 3;
      require_same(whole, train(task, o));
    }
    TrainingOptions o = task.options;
    o.strategy = Strategy::step_in_backward;
    if (name == "cnn-bn") o.batch_norm = BatchNormOver::micro_batch;
    train(task, o);
    o.strategy = Strategy::bf16_sum;
    REQUIRE_ERROR(train(task, o), "strategy bf16-sum rounds the sum of gradients to 16 bits");
    o.strategy = Strategy::fused;
    REQUIRE_ERROR(Training(o, task.data, Device::meta_cuda),
                  "precision fp64 runs on the cpu, but this run is on cuda");
  }
}

TEST_CASE("in float64 ranks are the whole batch within its rounding", "[float64]") {
  const Task task = task_of("cnn-gn");
  const TrainingOutcome whole = train(task, task.options);
  for (const bool shards : {false, true}) {
    std::vector<Numbers> weights(2);
    run_ranks(2, [&](Ranks& ranks) {
      TrainingOptions o = task.options;
      o.batches.micro = 3;
      o.ranks = &ranks;
      o.shard_optimizer = shards;
      Training training(o, task.data, Device::cpu);
      Observer silent;
      for (int64_t window = 0; window < windows; ++window) training.play(0, window, silent);
      weights[size_t(ranks.rank())] = to_doubles(training.parameters().values());
    });
    REQUIRE(weights[0] == weights[1]);
    REQUIRE(relative_difference(whole.weights, weights[0]) <= weight_bound);
  }
}

TEST_CASE("a run in float64 needs the memory that was predicted", "[float64]") {
  for (const std::string& name : all_names) {
    CAPTURE(name);
    const Task task = task_of(name);
    for (const int64_t micro : {8, 3}) {
      TrainingOptions o = task.options;
      o.batches.micro = micro;
      o.ema = 0.9;
      o.epochs = 1;
      const Dataset data = task.data.to(Device::meta);
      const size_t held = ledger(Device::cpu).current().total(),
                   held_there = ledger(Device::meta).current().total();
      const size_t planned = planned_peak(o, data, Device::cpu).total() - held_there;
      ledger(Device::cpu).reset_peak();
      Training training(o, task.data, Device::cpu);
      Observer silent;
      for (int64_t window = 0; window < windows; ++window) training.play(0, window, silent);
      REQUIRE(ledger(Device::cpu).peak().total() - held == planned);
    }
  }
}

TEST_CASE("checkpoints and weights keep float64", "[float64]") {
  const Task task = task_of("cnn-bn");
  const auto options = [&](const TemporaryDirectory& folder) {
    TrainingOptions o = task.options;
    o.batches.micro = 3;
    o.ema = 0.9;
    o.checkpoints = {.directory = folder.path() / "run", .every = 2, .resume = true};
    return o;
  };
  Observer silent;
  const TemporaryDirectory one, two;
  Trainer whole(options(one), task.data, Device::cpu);
  whole.run(silent);
  {
    TrainingOptions part = options(two);
    part.steps = 2;
    Trainer first(part, task.data, Device::cpu);
    first.run(silent);
  }
  {
    Trainer second(options(two), task.data, Device::cpu);
    REQUIRE(second.resume(silent));
    REQUIRE(second.training().steps() == 2);
    second.run(silent);
    REQUIRE(state_of_training(second.training()) == state_of_training(whole.training()));
  }
  TrainingOptions narrow = options(two);
  narrow.precision = Precision::fp32;
  Trainer other(narrow, task.data, Device::cpu);
  REQUIRE_ERROR(other.resume(silent), "precision");

  const std::string file = one.path() / "w.safetensors";
  whole.save_weights(file);
  for (const auto& entry : read_safetensors_header(file).entries)
    REQUIRE(entry.dtype == DType::f64);
  const auto values_in = [&](DType dtype, const std::string& from) {
    const auto model = task.options.model();
    Parameters parameters = place(*model, dtype, Device::cpu, 7);
    load_weights(from, parameters);
    return parameters;
  };
  const auto apart = [](const Parameters& parameters, const Numbers& others) {
    return relative_difference(without_gaps(parameters.values(), parameters), others);
  };
  const Parameters& trained = whole.training().parameters();
  const Numbers learned = without_gaps(trained.values(), trained);
  REQUIRE(apart(values_in(DType::f64, file), learned) == 0);
  Numbers rounded = learned;
  for (double& value : rounded) value = static_cast<float>(value);
  REQUIRE(relative_difference(rounded, learned) > 0);
  const Parameters in_float32 = values_in(DType::f32, file);
  REQUIRE(apart(in_float32, rounded) == 0);
  const std::string narrow_file = one.path() / "f32.safetensors";
  save_weights(narrow_file, in_float32);
  REQUIRE(apart(values_in(DType::f64, narrow_file), rounded) == 0);
}

TEST_CASE("numbers of a data set in float64 are not rounded", "[float64]") {
  constexpr int64_t N = 5;
  std::vector<double> x, y;
  for (int64_t i = 0; i < 3 * N; ++i) x.push_back(1.0 / double(i + 3));
  for (int64_t i = 0; i < N; ++i) y.push_back(1.0 / double(i + 7));
  const Dataset data{"thirds",
                     "made",
                     {{"images", Tensor::from(x, {N, 3}), Encoding::number},
                      {"targets", Tensor::from(y, {N, 1}), Encoding::number}}};
  data.check_fields();
  REQUIRE(to_doubles(gather(data, 0, N, DType::f64)["images"]) == x);
  Numbers narrow = x;
  for (double& value : narrow) value = static_cast<float>(value);
  REQUIRE(to_doubles(gather(data, 0, N, DType::f32)["images"]) == narrow);

  TrainingOptions o;
  o.model = [] {
    auto model = std::make_unique<Sequential>();
    model->add<Linear>(3, 1);
    return model;
  };
  o.objective = regression("images");
  o.precision = Precision::fp64;
  o.optimizer = OptimizerKind::sgd;
  o.schedule.base = 0.1;
  o.shuffle = false;
  o.batches = {.micro = 2, .effective = N};
  Training training(o, data, Device::cpu);
  const Numbers before = to_doubles(training.parameters().values());
  Observer silent;
  training.play(0, 0, silent);
  const Numbers after = to_doubles(training.parameters().values());
  const auto& [weight, bias] = std::pair(training.parameters().entries()[0].offset,
                                         training.parameters().entries()[1].offset);
  Numbers gradient(4);
  for (int64_t n = 0; n < N; ++n) {
    double wrong = before[size_t(bias)] - y[size_t(n)];
    for (int64_t k = 0; k < 3; ++k) wrong += before[size_t(weight + k)] * x[size_t(3 * n + k)];
    for (int64_t k = 0; k < 3; ++k) gradient[size_t(k)] += 2 * wrong * x[size_t(3 * n + k)] / N;
    gradient[3] += 2 * wrong / N;
  }
  for (int64_t k = 0; k < 4; ++k) {
    const auto i = size_t(k < 3 ? weight + k : bias);
    REQUIRE(std::abs(after[i] - (before[i] - 0.1 * gradient[size_t(k)])) <= 1e-15);
  }
}

}  // namespace accrue::test::float64
