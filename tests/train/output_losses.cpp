// Networks with several inputs and outputs, and losses of outputs: whatever each loss counts, a
// window is the mean of a whole batch.

#include "train/output_losses.h"

#include "core/random.h"
#include "kernels/arithmetic.h"
#include "kernels/concat.h"
#include "kernels/judged.h"
#include "kernels/pointwise.h"
#include "layers/graph.h"
#include "layers/layers.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"
#include "tests/support/op_table.h"
#include "tests/support/thread_ranks.h"
#include "train/memory_prediction.h"
#include "train/score.h"
#include "train/trainer.h"
#include "train/weighted_objectives.h"

namespace accrue::test {
namespace output_losses_test {
namespace {

constexpr int64_t sample_count = 8;

Tensor drawn(const Shape& shape, uint64_t seed) {
  const Tensor x = Tensor::empty(shape, DType::f64, Device::cpu, Category::data);
  RandomStream random(seed);
  for (double& v : x.span<double>()) v = random.normal();
  return x;
}

// The first three samples have no class.
Dataset pairs() {
  const std::vector<int32_t> labels{not_judged, not_judged, not_judged, 1, 1, 0, 2, 0};
  const std::vector<float> counts{1, 2, 0.5f, 0, 3, 0.25f, 1, 4};
  return {
      .name = "pairs",
      .source = "made",
      .fields = {{"left", drawn({sample_count, 5}, 1), Encoding::number},
                 {"right", drawn({sample_count, 2}, 2), Encoding::number},
                 {.name = "kind",
                  .values = Tensor::from(labels, {sample_count}, Device::cpu),
                  .encoding = Encoding::index,
                  .classes = 3,
                  .has_not_judged = true},
                 {"box", drawn({sample_count, 4}, 3), Encoding::number},
                 {"weights", Tensor::from(counts, {sample_count}, Device::cpu), Encoding::weight}}};
}

// Its output `unused` has no loss.
std::unique_ptr<Layer> two_heads() {
  auto net = std::make_unique<Graph>();
  const Graph::Value left = net->input("left"), right = net->input("right");
  const Graph::Value h =
      net->call("tanh", {net->call(std::make_unique<Linear>(5, 6), left, "body")});
  const Graph::Value both = net->call("cat", {h, right}, {{"dim", 1}});
  net->output(net->call(std::make_unique<Linear>(8, 3), both, "kind"), "kind");
  net->output(net->call(std::make_unique<Linear>(8, 7), h, "unused"), "unused");
  net->output(net->call(std::make_unique<Linear>(8, 4), both, "box"), "box");
  return net;
}

// The same in plain code.
class Heads : public Layer, public NamedNetwork {
 public:
  Heads() {
    declare("body", body_);
    declare("kind", kind_);
    declare("box", box_);
  }
  std::vector<std::string> input_names() const override { return {"left", "right"}; }
  std::vector<std::string> output_names() const override { return {"kind", "box"}; }
  std::vector<Tensor> outputs_of(std::vector<Tensor> in, const std::vector<std::string>& wanted,
                                 const Pass& pass) const override {
    const Tensor both = concat({tanh(body_(in[0], pass)), in[1]}, 1);
    std::vector<Tensor> found;
    for (const std::string& name : wanted)
      found.push_back(name == "kind" ? kind_(both, pass) : box_(both, pass));
    return found;
  }
  Tensor forward(Tensor, const Pass&) const override { fail("one input"); }
  std::string describe() const override { return "two heads"; }

 private:
  Linear body_{5, 6}, kind_{8, 3}, box_{8, 4};
};

struct Case {
  std::string name;
  ObjectivePtr objective;
  bool counts_apart;
};

std::vector<Case> cases() {
  const Dataset data = pairs();
  const std::vector<std::string> seen{"left", "right"};
  const auto kinds = [&](CrossEntropyOptions options, const char* weights) {
    return classification(data.field("kind"), {std::move(options), weights, "left"});
  };
  const auto boxes = [&](NumberLoss loss, const char* weights) {
    return regression(data.field("box"), {.loss = loss, .weights = weights, .input = "left"});
  };
  return {{"numbers", losses_of_outputs(seen, {{"box", boxes(NumberLoss::l1, ""), 0.25}}), false},
          {"labels", losses_of_outputs(seen, {{"kind", kinds({}, "")}}), false},
          {"not judged and numbers",
           losses_of_outputs(
               seen, {{"kind", kinds({}, "")}, {"box", boxes(NumberLoss::smooth_l1, ""), 0.5}}),
           true},
          {"all weights",
           losses_of_outputs(seen, {{"box", boxes(NumberLoss::mse, "weights"), 3},
                                    {"kind", kinds({{0.5, 3, 0.25}, 0.1}, "weights")}}),
           true}};
}

// True for a parameter that the objective's losses reach.
bool is_trained(const Objective& objective, const std::string& parameter) {
  if (parameter.starts_with("body")) return true;
  return std::ranges::any_of(objective.targets(),
                             [&](const auto& head) { return parameter.starts_with(head); });
}

struct Trained {
  Values gradient, terms;
  double loss = 0;
};

class Reports : public Observer {
 public:
  void on_step(const WindowReport& report) override { last = report; }
  WindowReport last;
};

TrainingOptions options_of(const ObjectivePtr& objective, const ModelFactory& model,
                           int64_t micro) {
  TrainingOptions options;
  options.model = model;
  options.objective = objective;
  options.batches = {.micro = micro, .effective = sample_count};
  options.precision = Precision::fp64;
  options.optimizer = OptimizerKind::sgd;
  options.shuffle = false;
  options.schedule.base = 0.5;
  return options;
}

Trained train(TrainingOptions options) {
  const Dataset data = pairs();
  Trainer trainer(options, data, Device::cpu);
  Reports reports;
  Trained trained;
  trainer.run(reports);
  for (const auto& [name, sum, scale] : trainer.training().window().last_gradients())
    if (is_trained(*options.objective, name))
      for (const double g : to_doubles(sum)) trained.gradient.push_back(g * scale);
  trained.loss = reports.last.loss;
  for (size_t i = 0; i < reports.last.term_names.size(); ++i)
    trained.terms.push_back(reports.last.terms[i]);
  return trained;
}

// The losses of the whole batch, without a window.
Trained whole(const ObjectivePtr& objective) {
  const auto model = two_heads();
  const Parameters parameters = place(*model, DType::f64, Device::cpu, 1);
  const Samples samples = gather(pairs(), 0, sample_count, DType::f64);
  Tensor sum;
  Trained result;
  for (const NamedLoss& each : objective->losses(*model, samples, {})) {
    const Tensor own = scale(each.value, each.factor);
    sum = sum.defined() ? add(sum, own) : own;
    result.terms.push_back(each.value.item());
  }
  backward(sum);
  result.loss = sum.item();
  for (const auto& entry : parameters.entries())
    if (is_trained(*objective, entry.name))
      for (const double g : to_doubles(grad(entry.tensor))) result.gradient.push_back(g);
  return result;
}

constexpr double tolerance = 1e-14;

}  // namespace

TEST_CASE("losses of several outputs are the same for every split", "[window]") {
  if (test_device() != Device::cpu) return;
  for (const auto& [name, objective, counts_apart] : cases()) {
    INFO(name);
    REQUIRE(objective->counts_apart(pairs()) == counts_apart);
    const Trained expected = whole(objective);
    for (const int64_t micro : {8, 3, 2, 1}) {
      INFO("micro-batches of " << micro);
      const Trained found = train(options_of(objective, two_heads, micro));
      REQUIRE(std::abs(found.loss - expected.loss) <= tolerance);
      REQUIRE(largest_difference(found.gradient, expected.gradient) <= tolerance);
      if (expected.terms.size() > 1)
        REQUIRE(largest_difference(found.terms, expected.terms) <= tolerance);
    }
  }
}

TEST_CASE("losses of several outputs are the same in plain code and over ranks", "[window]") {
  if (test_device() != Device::cpu) return;
  const ModelFactory plain = [] { return std::make_unique<Heads>(); };
  for (const auto& [name, objective, counts_apart] : cases()) {
    INFO(name);
    const Trained expected = train(options_of(objective, plain, 8));
    REQUIRE(largest_difference(train(options_of(objective, plain, 3)).gradient,
                               expected.gradient) <= tolerance);
    for (const int R : {2, 3})
      run_ranks(R, [&](Ranks& ranks) {
        TrainingOptions options = options_of(objective, plain, 2);
        options.ranks = &ranks;
        const Trained found = train(options);
        check(std::abs(found.loss - expected.loss) <= tolerance, "a loss of {}", found.loss);
        check(largest_difference(found.terms, expected.terms) <= tolerance, "other terms");
      });
  }
}

TEST_CASE("an output without a loss is not computed, and what leads to it not trained",
          "[window]") {
  const auto model = two_heads();
  const Parameters parameters = place(*model, DType::f64, Device::cpu, 1);
  const Samples samples = gather(pairs(), 0, sample_count, DType::f64);
  std::vector<std::string> ran;
  Pass pass;
  pass.observe = [&](const Module& module, const Shape&, const Shape& y) {
    ran.push_back(fmt::format("{} {}", module.describe().substr(0, 6), y));
  };
  for (const Recompute recompute : {Recompute::none, Recompute::all}) {
    ran.clear();
    pass.recompute = recompute;
    cases().back().objective->cost(*model, samples, pass);
    REQUIRE(std::ranges::count_if(ran, [](auto& line) { return line.ends_with("[8, 7]"); }) == 0);
    REQUIRE(std::ranges::count_if(ran, [](auto& line) { return line.ends_with("[8, 3]"); }) == 1);
  }
  Trainer trainer(options_of(cases().back().objective, two_heads, 2), pairs(), Device::cpu);
  const auto weights_of = [&](const std::string& layer) {
    Values all;
    for (const auto& entry : trainer.training().parameters().entries())
      if (entry.name.starts_with(layer))
        for (const double w : to_doubles(entry.tensor)) all.push_back(w);
    return all;
  };
  const Values unused = weights_of("unused"), body = weights_of("body");
  Observer none;
  trainer.run(none);
  REQUIRE(weights_of("unused") == unused);
  REQUIRE(weights_of("body") != body);
}

TEST_CASE("a score has each output's loss and metrics", "[window]") {
  const Dataset data = pairs();
  const ObjectivePtr of_kind = classification(data.field("kind"), {.input = "left"}),
                     of_box = regression(data.field("box"), {.input = "left"});
  const std::vector<std::string> seen{"left", "right"};
  const auto score_of = [&](std::vector<OutputLoss> losses, int64_t micro) {
    const auto model = two_heads();
    const Parameters parameters = place(*model, DType::f64, Device::cpu, 1);
    return evaluate(*model, *losses_of_outputs(seen, std::move(losses)), data, micro, DType::f64,
                    Device::cpu);
  };
  const Score kind = score_of({{"kind", of_kind}}, 8), box = score_of({{"box", of_box}}, 8);
  for (const int64_t micro : {8, 3, 1}) {
    const Score both = score_of({{"kind", of_kind, 2}, {"box", of_box, 0.5}}, micro);
    REQUIRE(both["kind.loss"] == Approx(kind.loss).epsilon(1e-14));
    REQUIRE(both["box.loss"] == Approx(box.loss).epsilon(1e-14));
    REQUIRE(both.loss == Approx(2 * kind.loss + 0.5 * box.loss).epsilon(1e-14));
    REQUIRE(both["kind.accuracy"] == kind["kind.accuracy"]);
    REQUIRE(both["box.rmse"] == Approx(box["box.rmse"]).epsilon(1e-14));
    REQUIRE_THAT(both.describe(), StartsWith("kind: accuracy "));
  }
}

TEST_CASE("a sample whose losses are not finite is found", "[window]") {
  if (test_device() != Device::cpu) return;
  Dataset data = pairs();
  data["left"].span<double>()[5 * 6] = NAN;
  TrainingOptions options = options_of(cases().back().objective, two_heads, 3);
  options.max_skipped = 1;
  options.epochs = 3;
  Trainer trainer(options, data, Device::cpu);
  Observer none;
  REQUIRE_ERROR(trainer.run(none), "sample with such a result is number 6 of pairs");
}

TEST_CASE("losses of outputs refuse what does not fit", "[data]") {
  const Dataset data = pairs();
  const ObjectivePtr box = regression(data.field("box"), {.input = "left"});
  const std::vector<std::string> seen{"left", "right"};
  REQUIRE_ERROR(losses_of_outputs({}, {{"box", box}}), "learns from 0 inputs and 1 loss");
  REQUIRE_ERROR(losses_of_outputs(seen, {{"box", box}, {"box", box}}), "'box' has two losses");
  REQUIRE_ERROR(losses_of_outputs(seen, {{"box", box, NAN}}), "expected a finite number");
  const auto model = two_heads();
  const Parameters parameters = place(*model, DType::f64, Device::cpu, 1);
  const Samples samples = gather(data, 0, sample_count, DType::f64);
  const auto cost = [&](std::vector<std::string> inputs, const std::string& output) {
    return losses_of_outputs(std::move(inputs), {{output, box}})->cost(*model, samples, {});
  };
  REQUIRE_ERROR(cost(seen, "boxes"), "no output 'boxes': it has kind, unused, box");
  REQUIRE_ERROR(cost({"middle"}, "box"), "no input 'middle': it has left, right");
  REQUIRE_ERROR(cost(seen, "kind"), "output 'kind': the network answers with [8, 3]");
  TrainingOptions options = options_of(cases().back().objective, two_heads, 2);
  options.strategy = Strategy::separate;
  options.on_overflow = OnOverflow::drop_micro_batch;
  REQUIRE_ERROR(Trainer(options, data, Device::cpu), "means over different things");
}

}  // namespace output_losses_test
}  // namespace accrue::test
