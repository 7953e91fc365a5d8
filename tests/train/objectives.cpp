// Properties of every objective: its score does not depend on how the samples are cut, and
// predictions and plans cover everything that its run may do, on meta devices, where nothing can be
// read.

#include <chrono>
#include <cmath>
#include <filesystem>
#include <thread>

#include "core/random.h"
#include "fonts/strokes.h"
#include "fonts/zi2zi_game.h"
#include "images/augmentation.h"
#include "images/contrastive.h"
#include "images/segmentation.h"
#include "layers/graph.h"
#include "layers/layers.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"
#include "tests/support/files.h"
#include "tests/support/thread_ranks.h"
#include "tests/support/thread_scope.h"
#include "text/language_modeling.h"
#include "text/models.h"
#include "text/preferences.h"
#include "text/text_pairs.h"
#include "train/output_losses.h"
#include "train/plan.h"
#include "train/score.h"
#include "train/trainer.h"
#include "train/weighted_objectives.h"

namespace accrue::test {
namespace objectives_test {
namespace {

constexpr int64_t trained_samples = 11, scored_samples = 7, side = 8, classes = 3;
constexpr int64_t context = 8, vocabulary = 11;

// Data and a network for an objective.
struct Task {
  std::string name;
  Datasets data;
  TrainingOptions options;
  bool has_batch_norm = true, has_pieces = false;
};

Tensor bytes(const Shape& shape, uint64_t seed, int levels) {
  const Tensor x = Tensor::empty(shape, DType::u8, Device::cpu, Category::data);
  RandomStream random(seed);
  for (uint8_t& v : x.span<uint8_t>())
    v = static_cast<uint8_t>(random.uniform(0, float(levels) - 0.5f));
  return x;
}

Tensor indices(const Shape& shape, uint64_t seed, int least, int64_t end) {
  const Tensor x = Tensor::empty(shape, DType::i32, Device::cpu, Category::data);
  RandomStream random(seed);
  for (int32_t& v : x.span<int32_t>())
    v = static_cast<int32_t>(std::floor(random.uniform(float(least), float(end) - 1e-3f)));
  return x;
}

Dataset images_with(int64_t N, Field answers) {
  return {.name = "few",
          .source = "made",
          .fields = {{"images", bytes({N, 1, side, side}, uint64_t(N), 256), Encoding::pixel},
                     std::move(answers)}};
}

template <class Make>
Datasets both(Make&& make) {
  return {make(trained_samples), make(scored_samples)};
}

Dataset labelled(int64_t N) {
  return images_with(N, {.name = "labels",
                         .values = indices({N}, 7, 0, classes),
                         .encoding = Encoding::index,
                         .classes = classes});
}

Dataset counted_differently(int64_t N) {
  Dataset data = labelled(N);
  const Tensor weights = Tensor::empty({N}, DType::f32, Device::cpu, Category::data);
  RandomStream random(6);
  for (float& weight : weights.span<float>()) weight = random.uniform(0, 2);
  weights.span<float>()[1] = 0;
  data.fields.push_back({"weights", weights, Encoding::weight});
  return data;
}

// Labels and numbers; samples count differently for the labels.
Dataset with_both(int64_t N) {
  Dataset data = counted_differently(N);
  const Tensor y = Tensor::empty({N, 2}, DType::f32, Device::cpu, Category::data);
  RandomStream random(5);
  for (float& v : y.span<float>()) v = float(random.normal());
  data.fields.push_back({"targets", y, Encoding::number});
  return data;
}

Dataset with_numbers(int64_t N) {
  const Tensor y = Tensor::empty({N, 2}, DType::f32, Device::cpu, Category::data);
  RandomStream random(5);
  for (float& v : y.span<float>()) v = float(random.normal());
  return images_with(N, {"targets", y, Encoding::number});
}

Dataset with_planes(int64_t N) {
  return images_with(N, {"masks", bytes({N, 2, side, side}, 9, 2), Encoding::mask});
}

// In the first samples nothing is judged.
Dataset with_classes(int64_t N) {
  const Tensor masks = indices({N, 1, side, side}, 11, -1, classes);
  std::ranges::fill(masks.span<int32_t>().first(2 * side * side), -1);
  return images_with(N, {.name = "masks",
                         .values = masks,
                         .encoding = Encoding::index,
                         .classes = classes,
                         .unjudged_value = uint8_t{255}});
}

Datasets with_views() {
  Datasets data = both(labelled);
  data.train.augmentation = changes_of(parse_augmentation("flip,rotate"));
  add_views(data.train, Views::differ);
  add_views(data.test, Views::equal);
  return data;
}

// Rows of text; some of the tokens are not judged.
Dataset rows(int64_t N) {
  const Tensor positions = indices({N, context}, 1, 0, 1), labels = indices({N, context}, 3, -1, 9);
  for (size_t i = 0; i < positions.span<int32_t>().size(); ++i)
    positions.span<int32_t>()[i] = int32_t(i % context);
  const auto field = [](const char* name, const Tensor& values, int64_t end) {
    return Field{.name = name, .values = values, .encoding = Encoding::index, .classes = end};
  };
  return {.name = "rows",
          .source = "made",
          .fields = {field("tokens", indices({N, context}, 2, 0, vocabulary), vocabulary),
                     field("positions", positions, context),
                     {.name = "labels",
                      .values = labels,
                      .encoding = Encoding::index,
                      .classes = vocabulary,
                      .has_not_judged = true}}};
}

Dataset pairs(int64_t N) {
  Dataset data = rows(N);
  data.fields.pop_back();
  data.fields.push_back({.name = "lengths",
                         .values = indices({N, 2}, 4, 1, context / 2 + 1),
                         .encoding = Encoding::index,
                         .classes = context + 1});
  return data;
}

Dataset answers(int64_t N) {
  Dataset data = rows(N);
  for (int32_t& position : data["positions"].span<int32_t>()) position %= int32_t(context / 2);
  data.fields.back().name = "answers";
  return data;
}

// A third output has no loss.
std::unique_ptr<Layer> two_heads() {
  auto net = std::make_unique<Graph>();
  const auto of_layer = [&]<class L>(std::unique_ptr<L> layer, Graph::Value x) {
    return net->call(std::move(layer), x);
  };
  Graph::Value x = net->input("images");
  x = of_layer(std::make_unique<Conv2d>(1, 2, 3, Conv2dShape{.padding = 1}), x);
  x = net->call("relu", {of_layer(std::make_unique<BatchNorm>(2), x)});
  x = net->call("flatten", {x}, {{"start_dim", 1}});
  constexpr int64_t features = 2 * side * side;
  net->output(of_layer(std::make_unique<Linear>(features, 2), x), "numbers");
  net->output(of_layer(std::make_unique<Linear>(features, 5), x), "unused");
  net->output(of_layer(std::make_unique<Linear>(features, classes), x), "class");
  return net;
}

template <class... Last>
ModelFactory network(int64_t channels, Last... last) {
  return [=] {
    auto model = std::make_unique<Sequential>();
    model->add<Conv2d>(1, channels, 3, Conv2dShape{.padding = 1});
    model->add<BatchNorm>(channels);
    model->add<Relu>();
    (last(*model), ...);
    return model;
  };
}
ModelFactory answering(int64_t numbers) {
  return network(2, [=](Sequential& model) {
    model.add<Flatten>();
    model.add<Linear>(2 * side * side, numbers);
  });
}
ModelFactory drawing(int64_t planes) {
  return network(2, [=](Sequential& model) { model.add<Conv2d>(2, planes, 1); });
}
ModelFactory reading(const LoraOptions& lora = {}) {
  return [lora] {
    return make_text_model(
        Gpt2Options{
            .vocabulary = vocabulary, .context = context, .width = 8, .layers = 1, .heads = 2},
        lora);
  };
}

Task task(const std::string& name, Datasets data, ModelFactory model, ObjectivePtr objective) {
  Task made{.name = name, .data = std::move(data), .options = {}};
  made.options.model = std::move(model);
  made.options.objective = std::move(objective);
  made.options.batches = {.micro = 2, .effective = 4};
  made.options.epochs = 1;
  return made;
}

std::vector<Task> all_tasks() {
  const Datasets planes = both(with_planes), masks = both(with_classes);
  std::vector<Task> all{
      task("classification", both(labelled), answering(classes), classification()),
      task("regression", both(with_numbers), answering(2), regression("images")),
      task("planes", planes, drawing(2), segmentation(planes.train.field("masks"))),
      task("pixels", masks, drawing(classes), segmentation(masks.train.field("masks"))),
      task("simclr", with_views(), answering(6), contrastive({.answers = 6, .classes = classes})),
      task("simclr without labels", with_views(), answering(6), contrastive({.answers = 6})),
      task("language modeling", both(rows), reading(), language_modeling()),
      task("pairs", both(pairs), reading(), text_pairs()),
      task("preferences", both(answers), reading({.rank = 2}), preferences())};
  for (Task& each : all)
    if (each.data.train.has("tokens")) each.has_batch_norm = false;
  all[6].has_pieces = all.back().has_pieces = true;
  const Datasets counted = both(counted_differently);
  all.push_back(task(
      "classification with weights", counted, answering(classes),
      classification(counted.train.field("labels"), {{{0.5, 2, 1}, 0.1}, "weights", "images"})));
  const Datasets of_two = both(with_both);
  all.push_back(task(
      "two outputs", of_two, two_heads,
      losses_of_outputs(
          {"images"},
          {{"class",
            classification(of_two.train.field("labels"), {.weights = "weights", .input = "images"}),
            0.5},
           {"numbers", regression(of_two.train.field("targets"), {.input = "images"})}})));
  return all;
}

// The task of drawing glyphs takes much longer than all others.
Task drawing_task() {
  const auto strokes = [](int64_t N) {
    return make_strokes(Split::train, {.train_size = N, .side = 32});
  };
  Task made = task("drawing", {strokes(3), strokes(3)}, {}, glyph_drawing());
  made.options.players = zi2zi_players({.networks = {.size = 32, .width = 1, .embedding = 2}});
  made.options.batches = {.micro = 1, .effective = 2};
  made.has_batch_norm = false;
  return made;
}

// Ranks for plans, which never exchange anything.
class PlannedRanks : public Ranks {
 public:
  int rank() const override { return 0; }
  int count() const override { return 2; }
  void gather(void*, const void*, size_t) override { fail("a plan exchanges nothing"); }
  void broadcast(void*, size_t, int) override { fail("a plan exchanges nothing"); }

 protected:
  void begin_exchange(Device, std::span<const Block>, std::span<const Block>) override {
    fail("a plan exchanges nothing");
  }
  bool exchanged(Wait) override { fail("a plan exchanges nothing"); }
};

struct Change {
  std::string name;
  std::function<void(TrainingOptions&)> make;
};

const std::vector<Change>& ways_to_score() {
  static const std::vector<Change> all{
      {"eval-every 1", [](TrainingOptions& o) { o.eval_every = 1; }},
      {"eval-every epoch", [](TrainingOptions& o) { o.eval_every = each_epoch; }},
      {"patience",
       [](TrainingOptions& o) {
         o.eval_every = 1;
         o.patience = 1;
       }},
      {"keep-best", [](TrainingOptions& o) {
         o.eval_every = 2;
         o.keep_best = true;
         o.checkpoints.directory = "best";  // compare() replaces it
       }}};
  return all;
}

std::vector<Change> ways_to_run(const Task& task, Ranks& ranks) {
  std::vector<Change> all{{"as it is", [](TrainingOptions&) {}},
                          {"bf16", [](TrainingOptions& o) { o.precision = Precision::bf16; }},
                          {"fp16", [](TrainingOptions& o) { o.precision = Precision::fp16; }},
                          {"average", [](TrainingOptions& o) { o.ema = 0.9; }},
                          {"separate", [](TrainingOptions& o) { o.strategy = Strategy::separate; }},
                          {"moments", [](TrainingOptions& o) { o.strategy = Strategy::moments; }},
                          {"noise scale", [](TrainingOptions& o) { o.noise_scale = true; }},
                          {"drops",
                           [](TrainingOptions& o) {
                             o.strategy = Strategy::separate;
                             o.on_overflow = OnOverflow::drop_micro_batch;
                           }},
                          {"ranks", [&](TrainingOptions& o) { o.ranks = &ranks; }}};
  if (task.has_batch_norm)
    for (const BatchNormBy by : {BatchNormBy::keep, BatchNormBy::walk})
      all.push_back({name_in(batch_norm_by_names(), by), [by](TrainingOptions& o) {
                       o.batch_norm = BatchNormOver::window;
                       o.batch_norm_by = by;
                     }});
  if (task.has_pieces) all.push_back({"pieces", [](TrainingOptions& o) { o.batches.piece = 3; }});
  return all;
}

// The choice where tests are reduced(): every task as it is, and each way to run and to score with
// some of the tasks, a different choice for each. Whether run and prediction refuse the same
// options does not depend on the device.
bool is_taken(size_t task, size_t way, size_t scoring) {
  if (scoring > 0) return way == 0 && (task + scoring) % 4 == 0;
  return way == 0 || (task + way) % 4 == 0;
}

// Runs work(). Returns the error that refuses it, if there is one.
std::optional<std::string> refusal(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return std::nullopt;
}

// Requires that a run takes the predicted memory, and that the run and the prediction refuse the
// same options.
void compare(const Task& task, TrainingOptions options) {
  const Device device = test_device();
  const TemporaryDirectory folder;
  if (!options.checkpoints.directory.empty())
    options.checkpoints.directory = folder.path().string();
  const Datasets data = place_data(task.data, device);
  const Usage held = ledger(device).current();
  Usage predicted;
  const auto refused = refusal([&] { predicted = predict_peak(options, data, device); });
  const size_t before = ledger(meta_of(device)).current().total();
  const Datasets planned = plan_data(data, device);
  const size_t planned_data = ledger(meta_of(device)).current().total() - before;
  const auto not_planned = refusal(
      [&] { plan_windows(options, planned, device, size_t{1} << 40, only_choice(options)); });
  INFO("plan: " << not_planned.value_or("taken"));
  REQUIRE(refused.has_value() == not_planned.has_value());
  if (options.ranks) {
    INFO(refused.value_or(""));
    REQUIRE(!refused);
    return;
  }
  const auto run_refused = refusal([&] {
    Observer nobody;
    Trainer trainer(options, data.train, device, data.test);
    trainer.run(nobody);
  });
  INFO("prediction: " << refused.value_or("taken") << "\nrun: " << run_refused.value_or("taken"));
  REQUIRE(refused == run_refused);
  if (refused) return;
  // Subtracts the memory that was in use before, such as the data.
  Usage measured = ledger(device).peak();
  for (Category c : all_categories) measured[c] -= held[c];
  predicted[Category::data] -= planned_data;
  INFO("predicted " << to_string(predicted) << ", measured " << to_string(measured));
  REQUIRE(predicted.bytes == measured.bytes);
}

// The score of a new network in float64.
Score score_of(const Task& task, int64_t micro, Ranks* ranks = nullptr, int64_t piece = 0) {
  const ModelFactory& factory =
      task.options.players.empty() ? task.options.model : task.options.players.back().model;
  const std::unique_ptr<Layer> model = factory();
  const Parameters parameters = place(*model, DType::f64, test_device(), 3);
  const Dataset data = place_data(task.data, test_device()).test;
  return evaluate(*model, *task.options.objective, data, micro, DType::f64, test_device(), ranks,
                  piece);
}

double difference(const Score& a, const Score& b) {
  double most = std::abs(a.loss - b.loss) / std::abs(b.loss);
  for (size_t i = 0; i < b.metrics.size(); ++i)
    most = std::max(most, std::abs(a.metrics.at(i).value - b.metrics[i].value) /
                              std::max(1.0, std::abs(b.metrics[i].value)));
  return most;
}

}  // namespace

// Sums of fewer than 1e4 terms in float64 are in another order; each rounding is 2.2e-16. The
// probe's least squares amplify this: its ridge of 1e-6 limits the factor to 1e6.
TEST_CASE("a score depends neither on micro-batches nor on ranks, threads and pieces", "[window]") {
  constexpr double tolerance = 1e4 * 2.2e-16 * 1e2;
  std::vector<Task> tasks = all_tasks();
  if (!reduced()) tasks.push_back(drawing_task());
  for (const Task& each : tasks) {
    INFO(each.name);
    const Score expected = score_of(each, scored_samples);
    REQUIRE(std::isfinite(expected.loss));
    REQUIRE(expected.loss > 0);
    for (const int threads : {1, 2})
      for (const int64_t micro : {1, 2, 3}) {
        const ThreadScope scope(threads);
        INFO("micro-batches of " << micro << ", " << threads << " threads");
        REQUIRE(difference(score_of(each, micro), expected) < tolerance);
      }
    if (each.has_pieces) REQUIRE(difference(score_of(each, 2, nullptr, 3), expected) < tolerance);
    for (const int count : {2, 3}) {
      std::vector<Score> found(static_cast<size_t>(count));
      run_ranks(count,
                [&](Ranks& ranks) { found[size_t(ranks.rank())] = score_of(each, 2, &ranks); });
      for (const Score& one : found) REQUIRE(difference(one, expected) < tolerance);
    }
  }
}

TEST_CASE("whatever scores is predicted and planned without reading", "[plan][memory]") {
  PlannedRanks ranks;
  std::vector<Task> tasks = all_tasks();
  int64_t combinations = 0;
  for (size_t t = 0; t < tasks.size(); ++t) {
    const Task& each = tasks[t];
    const std::vector<Change> ways = ways_to_run(each, ranks);
    for (size_t w = 0; w < ways.size(); ++w)
      for (size_t s = 0; s < ways_to_score().size(); ++s) {
        const Change &way = ways[w], &scoring = ways_to_score()[s];
        if (reduced() && !is_taken(t, w, s) && (s > 0 || way.name != "pieces")) continue;
        INFO(each.name << ", " << way.name << ", " << scoring.name);
        TrainingOptions options = each.options;
        way.make(options);
        scoring.make(options);
        compare(each, options);
        ++combinations;
      }
  }
  const Task glyphs = drawing_task();
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    if (reduced() && precision == Precision::bf16) continue;
    TrainingOptions options = glyphs.options;
    options.precision = precision;
    ways_to_score().front().make(options);
    INFO(glyphs.name << ", " << name_in(precision_names(), precision));
    compare(glyphs, options);
    ++combinations;
  }
  REQUIRE(combinations == (reduced() ? 47 : 470));
}

namespace {

struct LastStep : Observer {
  void on_step(const WindowReport& report) override { last = report; }
  void on_resume(const std::filesystem::path&, const std::string& said) override {
    differences = said;
  }
  WindowReport last;
  std::string differences = "not resumed";
};

}  // namespace

// Twelve documents of 5 tokens, padded to T tokens.
TEST_CASE("the noise scale counts tokens, whatever the padding", "[window][averages]") {
  const auto estimate = [](int64_t T) {
    constexpr int64_t N = 12, length = 5;
    const Dataset whole = rows(N);
    std::vector<int32_t> tokens(size_t(N * T)), positions(size_t(N * T)), labels(size_t(N * T), -1);
    for (int64_t n = 0; n < N; ++n)
      for (int64_t t = 0; t < T; ++t) {
        const auto at = size_t(n * T + t);
        positions[at] = int32_t(t);
        if (t >= length) continue;
        tokens[at] = whole["tokens"].span<int32_t>()[size_t(n * context + t)];
        labels[at] = t < 3 ? 1 : tokens[at];
      }
    Task padded = task("padded", {}, reading(), language_modeling());
    padded.options.model = [T] {
      return make_text_model(
          Gpt2Options{.vocabulary = vocabulary, .context = T, .width = 8, .layers = 1, .heads = 2});
    };
    padded.data.train = whole;
    for (Field& field : padded.data.train.fields)
      field.values = Tensor::from(field.name == "tokens"      ? tokens
                                  : field.name == "positions" ? positions
                                                              : labels,
                                  {N, T});
    padded.data.train.fields[1].classes = T;
    padded.options.epochs = 2;
    padded.options.noise_scale = true;
    padded.options.shuffle = false;
    LastStep observer;
    Trainer trainer(padded.options, place_data(padded.data, test_device()).train, test_device());
    trainer.run(observer);
    const Objective::Terms terms = padded.options.objective->terms_in(padded.data.train);
    REQUIRE(terms.name == "tokens");
    REQUIRE(terms.of_sample == double(T));
    // The tokens of a window.
    REQUIRE(observer.last.weight * terms.of_sample == Approx(4 * length));
    return observer.last.noise_scale;
  };
  const double expected = estimate(8);
  REQUIRE(expected > 0);
  // The sums are the same in float32.
  REQUIRE(estimate(16) == Approx(expected).epsilon(1e-4));
  REQUIRE(estimate(40) == Approx(expected).epsilon(1e-4));
}

TEST_CASE("the noise scale counts judged pixels, or samples", "[window][averages]") {
  const Datasets planes = both(with_planes), masks = both(with_classes);
  const auto terms = [](const Dataset& data) {
    return segmentation(data.field("masks"))->terms_in(data);
  };
  REQUIRE(terms(planes.train).name == "samples");
  REQUIRE(terms(planes.train).of_sample == 1);
  REQUIRE(terms(masks.train).name == "judged pixels");
  REQUIRE(terms(masks.train).of_sample == side * side);
}

TEST_CASE("the time of a run is that of its training", "[window]") {
  using Clock = std::chrono::steady_clock;
  struct Sleeps : Observer {
    static void sleep() { std::this_thread::sleep_for(std::chrono::milliseconds(30)); }
    void on_score(int64_t, int64_t, const Score&, bool) override { sleep(); }
    void on_checkpoint() override { sleep(); }
    void on_step(const WindowReport& report) override {
      REQUIRE(report.seconds > last);
      last = report.seconds;
      sleep();
    }
    double last = 0;
  };
  Task each = all_tasks().front();
  each.options.eval_every = 1;
  const Datasets data = place_data(each.data, test_device());
  Sleeps sleeps;
  Trainer trainer(each.options, data.train, test_device(), data.test);
  const auto begun = Clock::now();
  trainer.run(sleeps);
  const double seconds = std::chrono::duration<double>(Clock::now() - begun).count();
  // Three steps, three scores, and the end each took 30 ms.
  REQUIRE(seconds - trainer.seconds() >= 7 * 0.03);
  REQUIRE(trainer.seconds() >= sleeps.last);
  REQUIRE(trainer.seconds() == trainer.seconds());  // it does not grow after the run
}

TEST_CASE("what is left of a run is predicted to the byte", "[plan][memory]") {
  const Device device = test_device();
  // Windows of 4, 4 and 3 samples.
  for (const Strategy strategy : {Strategy::fused, Strategy::step_in_backward})
    for (const int64_t before : {1, 2, 4, 5}) {
      Task each = all_tasks().front();
      if (strategy == Strategy::step_in_backward) each.options.batches.micro = 4;
      each.options.strategy = strategy;
      each.options.epochs = 2;
      each.options.eval_every = 5;
      const TemporaryDirectory folder;
      each.options.checkpoints = {.directory = folder.path().string(), .resume = true};
      const Datasets data = place_data(each.data, device);
      Observer nobody;
      each.options.steps = before;
      Trainer(each.options, data.train, device, data.test).run(nobody);
      each.options.steps.reset();
      Trainer trainer(each.options, data.train, device, data.test);
      trainer.resume(nobody);
      REQUIRE(trainer.windows() == before);
      trainer.run(nobody);
      REQUIRE(trainer.windows() == 6);
      const Usage measured = ledger(device).peak(),
                  predicted = predict_peak(each.options, data, device, WindowRange{before, 6});
      INFO(name_in(strategy_names(), strategy)
           << " after " << before << ": predicted " << to_string(predicted) << ", measured "
           << to_string(measured));
      REQUIRE(predicted.bytes == measured.bytes);
    }
}

TEST_CASE("a run that is resumed with another way to see its window says what changes",
          "[checkpoint]") {
  for (Task each : all_tasks()) {
    if (!each.has_batch_norm) continue;
    INFO(each.name);
    const TemporaryDirectory folder;
    each.options.batch_norm = BatchNormOver::window;
    each.options.checkpoints = {.directory = folder.path().string(), .resume = true};
    const Datasets data = place_data(each.data, test_device());
    LastStep observer;
    each.options.steps = 1;
    Trainer(each.options, data.train, test_device()).run(observer);
    each.options.steps = 2;
    each.options.batch_norm_by = BatchNormBy::walk;
    Trainer trainer(each.options, data.train, test_device());
    REQUIRE(trainer.resume(observer));
    if (each.options.objective->forwards() == 1) REQUIRE(observer.differences.empty());
    else
      REQUIRE_THAT(observer.differences,
                   ContainsSubstring("batch-norm-by: keep in the checkpoint, walk here"));
  }
}

// A unit vector z depends on six tensors of 16 bits: the image, two weights and three results. Each
// is off by at most u, and cancellation may double that: z is off by 12 u. A logit z z' / 0.5 of
// two vectors is then off by 2 * 2 * 12 u. The loss is off by at most twice that: once by its logit
// and once by the softmax.
TEST_CASE("a loss of two views in 16 bits is that of float32", "[window]") {
  const auto loss_in = [](Precision precision) {
    Task each = all_tasks()[4];
    REQUIRE(each.name == "simclr");
    each.options.precision = precision;
    each.options.steps = 2;
    const Datasets data = place_data(each.data, test_device());
    LastStep observer;
    Trainer trainer(each.options, data.train, test_device(), data.test);
    trainer.run(observer);
    REQUIRE(!observer.last.skipped);
    return std::pair(observer.last.loss, trainer.evaluate(data.test).loss);
  };
  const auto [loss, score] = loss_in(Precision::fp32);
  for (const auto& [precision, u] :
       {std::pair{Precision::bf16, 1.0 / 256}, {Precision::fp16, 1.0 / 2048}}) {
    const auto [found, scored] = loss_in(precision);
    INFO(name_in(precision_names(), precision)
         << ": " << found << " for " << loss << ", scored " << scored << " for " << score);
    REQUIRE(std::abs(found - loss) < 2 * 2 * 2 * 12 * u);
    REQUIRE(std::abs(scored - score) < 2 * 2 * 2 * 12 * u);
  }
}

}  // namespace objectives_test
}  // namespace accrue::test
