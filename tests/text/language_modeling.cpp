// Language models: a window is the mean over its judged tokens, however it is cut into
// micro-batches. tests/golden/text.safetensors has the results of transformers' models, which start
// from the same weights and take the whole window as one batch (scripts/golden_text.py).
// lora.safetensors has the results of PEFT's adapters on these models (scripts/golden_lora.py).

#include "text/language_modeling.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "accumulate/window.h"
#include "core/error.h"
#include "data/safetensors.h"
#include "kernels/judged.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"
#include "tests/support/op_table.h"
#include "tests/support/paths.h"
#include "tests/support/thread_ranks.h"
#include "text/models.h"
#include "train/weights.h"

namespace accrue::test {
namespace {

constexpr int64_t rows_of_window = 8;
using RowSplit = std::vector<int64_t>;
const std::vector<RowSplit> row_splits{{8}, {4, 4}, {3, 3, 2}, RowSplit(8, 1)};
// The runner takes about a thousand times as long as a processor.
int64_t windows_to_compare() { return reduced() ? 2 : 20; }

std::map<std::string, Tensor> text_golden() {
  std::map<std::string, Tensor> all;
  for (const char* file : {"text", "lora"})
    for (auto& [name, tensor] :
         read_safetensors(fmt::format("{}/tests/golden/{}.safetensors", source_folder, file)))
      all.emplace(name, std::move(tensor));
  return all;
}

Samples text_samples() {
  const auto golden = text_golden();
  Samples samples;
  for (const char* field : {"tokens", "positions", "labels"})
    samples.fields.push_back({field, golden.at(field).to(test_device())});
  return samples;
}

// The names are "gpt2", "llama", and with adapters "gpt2.lora" and "llama.lora".
TextModelOptions small_model(const std::string& name) {
  if (name.starts_with("gpt2"))
    return Gpt2Options{.vocabulary = 23, .context = 12, .width = 12, .layers = 2, .heads = 3};
  return LlamaOptions{
      .vocabulary = 23, .width = 16, .hidden = 24, .layers = 2, .heads = 4, .groups = 2};
}

LoraOptions lora_of(const std::string& name) {
  if (name == "gpt2.lora")
    return {.rank = 4, .alpha = 12, .targets = {"c_attn", "mlp.c_proj", "c_fc"}};
  if (name == "llama.lora")
    return {.rank = 4,
            .alpha = 6,
            .rank_stabilized = true,
            .targets = {"q_proj", "v_proj", "gate_proj", "down_proj"}};
  return {};
}

// The mistakes that tests make on purpose.
enum class Mistake {
  none,
  mean_of_means,
  token_counted_twice,
  documents_see_each_other,
  tied_weight_stepped_twice,
  all_decay,
  adapters_unscaled,
  adapters_overwritten,  // the gradient of B, by the last micro-batch
  base_trained
};

std::unique_ptr<LanguageModel> learning_model(const std::string& name, Mistake mistake) {
  LoraOptions lora = lora_of(name);
  if (mistake == Mistake::adapters_unscaled) {
    lora.alpha = double(*lora.rank);
    lora.rank_stabilized = false;
  }
  auto model = make_text_model(small_model(name), lora);
  if (mistake == Mistake::base_trained)
    model->visit_parameters([](const std::string&, Parameter& p) { p.fixed = false; });
  return model;
}

struct TextLearner {
  std::unique_ptr<LanguageModel> model;
  Parameters parameters;
  std::unique_ptr<Optimizer> optimizer;
  Window window;
  ObjectivePtr objective = language_modeling();
  Pass pass;
  Mistake mistake;
  bool reads_losses = false;  // before their backward

  TextLearner(const std::string& name, WindowOptions options, Mistake mistake = Mistake::none)
      : model(learning_model(name, mistake)),
        parameters(place(*model, DType::f64, test_device(), 0, gradient_storage(options.strategy))),
        optimizer(adamw(parameters, {.beta1 = 0.9, .beta2 = 0.95, .weight_decay = 0.1})),
        window(*optimizer, ScheduleOptions{.base = 0.01}, with_size(options)),
        mistake(mistake) {
    const auto golden = text_golden();
    const std::string base = name.substr(0, name.find('.'));
    for (const auto& entry : parameters.all_entries()) {
      const std::string& model_of = is_of_adapter(entry.name) ? name : base;
      const Tensor& initial = golden.at("init." + model_of + "." + entry.name);
      entry.tensor.copy_from(Tensor::from(to_doubles(initial), initial.shape(), test_device()));
    }
    if (mistake != Mistake::all_decay)
      optimizer->exempt_from_decay(
          parameters.ranges([](const auto& entry) { return entry.tensor.shape().rank() == 1; }));
  }
  static WindowOptions with_size(WindowOptions options) {
    options.effective_batch_size = rows_of_window;
    return options;
  }

  void backward(Samples part) {
    if (mistake == Mistake::adapters_overwritten)
      for (const auto& entry : parameters.entries())
        if (entry.name.ends_with("lora_B.weight")) zero_grad(entry.tensor);
    if (mistake == Mistake::documents_see_each_other)
      for (auto& field : part.fields)
        if (field.name == "positions") field.values = positions_of(part["tokens"]);
    const Tensor loss = objective->loss(objective->answer(*model, part, pass), part);
    if (reads_losses) loss.item();
    Tensor weight = objective->weight(part);
    if (mistake == Mistake::token_counted_twice && window.micro_batches() == 0)
      weight = Tensor::full({1}, to_doubles(weight)[0] + 1.0 / double(part["labels"].size(1)),
                            weight.dtype(), weight.device());
    if (mistake == Mistake::mean_of_means) window.backward(loss, {part.size()});
    else window.backward(loss, {part.size(), weight});
  }
  // Rank r of R has the r-th, (r + R)-th, ... of these micro-batches.
  StepReport step(const Samples& samples, const RowSplit& split, int r = 0, int R = 1) {
    int64_t begin = 0;
    for (size_t i = 0; i < split.size(); begin += split[i++])
      if (static_cast<int>(i) % R == r) backward(samples.slice(begin, begin + split[i]));
    if (mistake != Mistake::tied_weight_stepped_twice) return window.step();
    const Tensor& tied = model->head();
    const Values before = to_doubles(tied);
    const StepReport report = window.step();
    Values stepped = to_doubles(tied);
    for (size_t i = 0; i < stepped.size(); ++i) stepped[i] += stepped[i] - before[i];
    tied.copy_from(Tensor::from(stepped, tied.shape(), test_device()));
    return report;
  }
};

// The largest difference from transformers in losses, norms, the first gradient, and the weights
// after all windows.
double difference(TextLearner& learner, const std::string& name, const RowSplit& split, int r = 0,
                  int R = 1) {
  const Samples samples = text_samples();
  const auto stored = text_golden();
  const auto golden = [&](const std::string& what) { return to_doubles(stored.at(what)); };
  double largest = 0;
  const auto compare = [&](double a, double b) { largest = std::max(largest, std::abs(a - b)); };
  for (const auto& entry : learner.parameters.entries())
    if (!stored.contains("final." + name + "." + entry.name)) return 1;  // it is not trained there
  for (int64_t i = 0; i < windows_to_compare(); ++i) {
    const StepReport report = learner.step(samples, split, r, R);
    check(!report.skipped, "a window was skipped");  // may run on another thread than Catch's
    compare(report.loss, golden("loss." + name)[size_t(i)]);
    if (!std::isnan(report.grad_norm))
      compare(report.grad_norm, golden("grad_norm." + name)[size_t(i)]);
    if (i > 0 || !learner.window.can_abandon()) continue;
    for (const auto& [of, sum, scale] : learner.window.last_gradients()) {
      Values mean = to_doubles(sum);
      for (double& g : mean) g *= scale;
      largest = std::max(largest, largest_difference(mean, golden("grad." + name + "." + of)));
    }
  }
  if (windows_to_compare() == 20)
    for (const auto& entry : learner.parameters.entries())
      largest = std::max(largest, largest_difference(to_doubles(entry.tensor),
                                                     golden("final." + name + "." + entry.name)));
  return largest;
}

// Adam divides by the root of v: over 20 steps with a gradient near 0, a difference of 1e-16 grows
// to 1e-12.
constexpr double text_tolerance = 1e-10;

}  // namespace

TEST_CASE("a window is transformers' mean over its tokens, for every split", "[golden]") {
  for (const std::string name : {"gpt2", "llama"})
    for (const RowSplit& split : row_splits)
      for (const Strategy strategy :
           {Strategy::fused, Strategy::separate, Strategy::step_in_backward}) {
        if (strategy == Strategy::step_in_backward && split.size() > 1) continue;
        if (reduced() && (strategy == Strategy::separate || split.size() == 2)) continue;
        for (const Recompute recompute : {Recompute::none, Recompute::all}) {
          if (recompute == Recompute::all && strategy != Strategy::fused) continue;
          INFO(name << " in " << split.size() << " micro-batches, strategy " << int(strategy));
          TextLearner learner(name, {.strategy = strategy});
          learner.pass.recompute = recompute;
          REQUIRE(difference(learner, name, split) <= text_tolerance);
        }
      }
}

TEST_CASE("a window of rows in pieces is transformers' mean over its tokens", "[golden]") {
  const auto compare = [](const std::string& name, const RowSplit& split, int64_t piece,
                          Recompute recompute, Strategy strategy) {
    INFO(name << " in " << split.size() << " micro-batches, pieces of " << piece);
    TextLearner learner(name, {.strategy = strategy});
    learner.pass.piece = piece;
    learner.pass.recompute = recompute;
    REQUIRE(difference(learner, name, split) <= text_tolerance);
  };
  for (const std::string name : {"gpt2", "llama"}) {
    // The pieces are halves, thirds, uneven pieces and single tokens. The documents in the rows end
    // in other places.
    for (const int64_t piece : {6, 4, 5, 1}) {
      if (reduced() && piece != 5) continue;
      compare(name, RowSplit(8, 1), piece, Recompute::none, Strategy::fused);
    }
    if (reduced()) continue;
    compare(name, {3, 3, 2}, 5, Recompute::none, Strategy::fused);
    compare(name, RowSplit(8, 1), 5, Recompute::all, Strategy::separate);
    compare(name, {8}, 5, Recompute::sqrt, Strategy::step_in_backward);
  }
}

// A recomputed segment may write its results over other tensors than the first run of it.
TEST_CASE("recomputation changes no bit of a language model's weights", "[recompute]") {
  const Samples samples = text_samples();
  for (const std::string name : {"gpt2", "llama", "gpt2.lora", "llama.lora"}) {
    const auto weights_with = [&](Recompute recompute) {
      TextLearner learner(name, {});
      learner.pass.recompute = recompute;
      for (int i = 0; i < 2; ++i) learner.step(samples, {4, 4});
      return to_doubles(learner.parameters.values());
    };
    const Values weights = weights_with(Recompute::none);
    for (const Recompute recompute : {Recompute::sqrt, Recompute::all}) {
      INFO(name << " with recompute " << int(recompute));
      const bool are_equal = weights_with(recompute) == weights;
      CHECK(are_equal);
    }
  }
}

TEST_CASE("ranks are transformers' mean over the tokens of all", "[golden]") {
  const auto compare = [](const std::string& name, int R, const RowSplit& split,
                          int64_t piece = 0) {
    std::vector<double> differences(static_cast<size_t>(R), 1);
    run_ranks(R, [&](Ranks& ranks) {
      TextLearner learner(name, {.ranks = &ranks});
      learner.pass.piece = piece;
      differences[size_t(ranks.rank())] = difference(learner, name, split, ranks.rank(), R);
    });
    for (const double each : differences) REQUIRE(each <= text_tolerance);
  };
  compare("gpt2", 2, {3, 3, 2});
  compare("gpt2", 3, RowSplit(8, 1));
  compare("llama", 2, RowSplit(8, 1));
  compare("llama", 3, {3, 3, 2});
  compare("llama", 2, {3, 3, 2}, 5);
}

TEST_CASE("common mistakes with tokens are noticed", "[golden]") {
  for (const Mistake mistake :
       {Mistake::mean_of_means, Mistake::token_counted_twice, Mistake::documents_see_each_other,
        Mistake::tied_weight_stepped_twice, Mistake::all_decay}) {
    if (reduced() && mistake == Mistake::all_decay) continue;  // it shows in the weights
    INFO("mistake " << int(mistake));
    TextLearner learner("gpt2", {}, mistake);
    REQUIRE(difference(learner, "gpt2", {3, 3, 2}) > 1e-4);
  }
}

TEST_CASE("adapters learn what PEFT's learn, however a window is cut", "[golden]") {
  struct Case {
    RowSplit split;
    int64_t piece = 0;
    Recompute recompute = Recompute::none;
    Strategy strategy = Strategy::fused;
  };
  std::vector<Case> cases{{.split = {8}, .strategy = Strategy::step_in_backward},
                          {.split = {3, 3, 2}},
                          {.split = RowSplit(8, 1), .piece = 5}};
  if (!reduced())
    for (const Case& more :
         std::initializer_list<Case>{{{8}},
                                     {{4, 4}, 0, Recompute::all, Strategy::separate},
                                     {RowSplit(8, 1), 0, Recompute::sqrt},
                                     {{3, 3, 2}, 4},
                                     {RowSplit(8, 1), 1, Recompute::all, Strategy::separate},
                                     {{8}, 6, Recompute::sqrt, Strategy::step_in_backward}})
      cases.push_back(more);
  for (const std::string name : {"gpt2.lora", "llama.lora"})
    for (const Case& c : cases) {
      INFO(name << " in " << c.split.size() << " micro-batches, pieces of " << c.piece);
      TextLearner learner(name, {.strategy = c.strategy});
      const Values fixed = to_doubles(learner.parameters.fixed_values());
      learner.pass.piece = c.piece;
      learner.pass.recompute = c.recompute;
      REQUIRE(difference(learner, name, c.split) <= text_tolerance);
      REQUIRE(to_doubles(learner.parameters.fixed_values()) == fixed);
    }
}

TEST_CASE("ranks share a window of adapters", "[golden]") {
  for (const std::string name : {"gpt2.lora", "llama.lora"}) {
    std::vector<double> differences(2, 1);
    run_ranks(2, [&](Ranks& ranks) {
      TextLearner learner(name, {.ranks = &ranks});
      differences[size_t(ranks.rank())] = difference(learner, name, {3, 3, 2}, ranks.rank(), 2);
    });
    for (const double each : differences) REQUIRE(each <= text_tolerance);
  }
}

TEST_CASE("common mistakes with adapters are noticed", "[golden]") {
  for (const Mistake mistake :
       {Mistake::adapters_unscaled, Mistake::adapters_overwritten, Mistake::base_trained})
    for (const std::string name : {"gpt2.lora", "llama.lora"}) {
      INFO(name << ", mistake " << int(mistake));
      TextLearner learner(name, {}, mistake);
      REQUIRE(difference(learner, name, {3, 3, 2}) > 1e-4);
    }
}

TEST_CASE("a model with merged adapters computes the same", "[golden]") {
  const NoGrad no_grad;
  for (const std::string name : {"gpt2.lora", "llama.lora"}) {
    TextLearner learner(name, {});
    const auto plain = make_text_model(small_model(name));
    const Parameters parameters = place(*plain, DType::f64, test_device(), 0);
    const auto loss_of = [](const Layer& model) {
      return to_doubles(language_modeling()->answer(model, text_samples(), Pass::eval()))[0];
    };
    const double before = loss_of(*learner.model);
    merge_lora(*learner.model);
    std::map<std::string, Tensor> merged;
    for (auto& [of, tensor] : named_tensors(learner.parameters)) merged[of] = tensor;
    for (const auto& entry : parameters.entries()) entry.tensor.copy_from(merged.at(entry.name));
    REQUIRE(std::abs(loss_of(*learner.model) - before) <= 1e-12);
    REQUIRE(std::abs(loss_of(*plain) - before) <= 1e-12);
    REQUIRE(std::abs(before - to_doubles(text_golden().at("loss." + name))[0]) <= 1e-12);
  }
}

// The loss of two rows under dropout, and its gradient, in pieces of this size.
Values gradient_under_dropout(const TextModelOptions& options, const LoraOptions& lora,
                              int64_t piece, Recompute recompute = Recompute::none) {
  const auto model = make_text_model(options, lora);
  const Parameters parameters = place(*model, DType::f64, test_device(), 3);
  // Without this B would be 0, and so would the gradient of A.
  for (const auto& entry : parameters.entries())
    if (entry.name.ends_with("lora_B.weight"))
      entry.tensor.copy_from(
          tensor_with(random_values(entry.tensor.shape(), 1), entry.tensor.shape(), DType::f64));
  const Pass pass{.seed = 5,
                  .epoch = 2,
                  .samples = Tensor::from(std::vector<int32_t>{9, 4}, {2}, test_device()),
                  .recompute = recompute,
                  .piece = piece};
  const Tensor loss = language_modeling()->answer(*model, text_samples().slice(0, 2), pass);
  Values all = to_doubles(loss);
  backward(loss);
  for (const double g : to_doubles(parameters.gradients())) all.push_back(g);
  return all;
}

TEST_CASE("pieces have the dropout of their rows", "[golden]") {
  auto gpt2 = std::get<Gpt2Options>(small_model("gpt2"));
  gpt2.dropout = 0.4;
  for (const int64_t width :
       {12, 6}) {  // with 6, a token begins in the middle of a call's four words
    gpt2.width = width;
    const Values whole = gradient_under_dropout(gpt2, {}, 0);
    for (const int64_t piece : {6, 5, 1})
      REQUIRE(largest_difference(gradient_under_dropout(gpt2, {}, piece), whole) <= 1e-12);
  }
}

TEST_CASE("adapters' dropout is the same in pieces and when it is computed again", "[golden]") {
  for (const std::string name : {"gpt2.lora", "llama.lora"}) {
    LoraOptions lora = lora_of(name);
    const auto gradient = [&](int64_t piece, Recompute recompute) {
      return gradient_under_dropout(small_model(name), lora, piece, recompute);
    };
    const Values without = gradient(0, Recompute::none);
    lora.dropout = 0.4;
    const Values whole = gradient(0, Recompute::none);
    REQUIRE(largest_difference(whole, without) > 1e-3);
    REQUIRE(gradient(0, Recompute::all) == whole);
    REQUIRE(gradient(0, Recompute::sqrt) == whole);
    for (const int64_t piece : {6, 5, 1})
      REQUIRE(largest_difference(gradient(piece, Recompute::none), whole) <= 1e-12);
    REQUIRE(largest_difference(gradient(5, Recompute::all), whole) <= 1e-12);
  }
}

TEST_CASE("targets of adapters are names or their ends", "[text]") {
  const auto adapted = [](const std::string& name, const std::vector<std::string>& targets) {
    const auto model = make_text_model(small_model(name), {.rank = 2, .targets = targets});
    const Parameters parameters =
        place(*model, DType::f32, Device::meta, 1, GradientStorage::on_demand);
    std::string found;
    for (const auto& entry : parameters.entries())
      if (entry.name.ends_with("lora_A.weight")) found += layer_of(layer_of(entry.name)) + " ";
    return found;
  };
  const std::string h = "transformer.h.", l = "model.layers.";
  REQUIRE(adapted("gpt2", {}) == h + "0.attn.c_attn " + h + "1.attn.c_attn ");
  REQUIRE(adapted("gpt2", {"attn.c_proj"}) == h + "0.attn.c_proj " + h + "1.attn.c_proj ");
  REQUIRE(adapted("gpt2", {h + "1.mlp.c_fc"}) == h + "1.mlp.c_fc ");
  REQUIRE(adapted("llama", {"down_proj"}) == l + "0.mlp.down_proj " + l + "1.mlp.down_proj ");
  REQUIRE(std::ranges::count(adapted("llama", {"all"}), ' ') == 14);
  REQUIRE(std::ranges::count(adapted("llama", {}), ' ') == 4);
  REQUIRE_ERROR(adapted("gpt2", {"c_attn", "q_proj"}),
                "called 'q_proj': expected attn.c_attn, attn.c_proj, mlp.c_fc, mlp.c_proj, the");
  REQUIRE_ERROR(adapted("llama", {"proj"}), "called 'proj'");
  REQUIRE_ERROR(make_text_model(small_model("gpt2"), {.rank = 0}), "LoRA of rank 0");
}

TEST_CASE("rows without anything to learn are skipped and leave no trace", "[golden]") {
  TextLearner learner("gpt2", {});
  const Values before = to_doubles(learner.parameters.values());
  const StepReport report = learner.step(text_samples().slice(4, 5), {1});
  REQUIRE(report.skipped);
  REQUIRE(report.no_weight);
  REQUIRE(to_doubles(learner.parameters.values()) == before);
  REQUIRE(difference(learner, "gpt2", {3, 3, 2}) <= text_tolerance);
}

TEST_CASE("in training the loss is computed in its backward, or when somebody reads it before",
          "[golden]") {
  TextLearner learner("gpt2", {});
  const Samples samples = text_samples();
  const auto waits = [&](const Pass& pass) {
    return learner.objective->answer(*learner.model, samples, pass).is_waiting();
  };
  REQUIRE(waits({}));
  REQUIRE_FALSE(waits(Pass::eval()));
  REQUIRE_FALSE(waits({.piece = 5}));  // a sum over pieces
  struct Case {
    RowSplit split;
    int64_t piece = 0;
    WindowOptions window = {};
  };
  std::vector<Case> cases{
      {{4, 4}, 0, {.strategy = Strategy::separate, .on_overflow = OnOverflow::drop_micro_batch}},
      {{8}, 0, {.strategy = Strategy::step_in_backward}}};
  if (!reduced()) cases.push_back({{3, 3, 2}}), cases.push_back({{3, 3, 2}, 5});
  for (const Case& c : cases) {
    const auto learn = [&](bool reads_losses) {
      TextLearner one("gpt2", c.window);
      one.pass.piece = c.piece;
      one.reads_losses = reads_losses;
      const StepReport report = one.step(samples, c.split);
      REQUIRE_FALSE(report.skipped);
      Values all = to_doubles(one.parameters.values());
      all.push_back(report.loss);
      return all;
    };
    REQUIRE(learn(false) == learn(true));
  }
}

// On cuda the second window records its micro-step, and the others replay it. The host then calls
// nothing that could compute a loss.
TEST_CASE("a replayed micro-step of text has the bits of one that runs", "[golden]") {
  const Samples samples = text_samples();
  const auto learn = [&](Graphs graphs) {
    TextLearner one("gpt2", {.graphs = graphs});
    Values all;
    for (int window = 0; window < 4; ++window) {
      one.window.micro_step(samples.size(), 0, [&] { one.backward(samples); });
      all.push_back(one.window.step().loss);
    }
    for (const double value : to_doubles(one.parameters.values())) all.push_back(value);
    return all;
  };
  const Values recorded = learn(Graphs::on);
  REQUIRE(recorded == learn(Graphs::off));
  REQUIRE(recorded[3] < recorded[2]);
}

TEST_CASE("a window of text whose loss is not finite is skipped", "[golden]") {
  TextLearner learner("gpt2", {});
  const Tensor& bias = learner.parameters.entries().back().tensor;
  const Values before = to_doubles(bias);
  bias.fill(NAN);
  const StepReport report = learner.step(text_samples(), {3, 3, 2});
  REQUIRE(report.skipped);
  REQUIRE_FALSE(std::isfinite(report.loss));
  bias.copy_from(Tensor::from(before, bias.shape(), test_device()));
  REQUIRE(difference(learner, "gpt2", {3, 3, 2}) <= text_tolerance);
}

TEST_CASE("the score of rows is over their tokens, for every split", "[golden]") {
  const Samples samples = text_samples();
  TextLearner learner("gpt2", {});
  const double expected = to_doubles(text_golden().at("loss.gpt2"))[0];
  const Dataset data{
      .name = "", .source = "", .fields = {{.name = "labels", .values = samples["labels"]}}};
  for (const int64_t n : {8, 4, 2, 1}) {
    const NoGrad no_grad;
    const Tensor sums = Tensor::full({learner.objective->sums()}, 0, DType::f64, test_device());
    Pass pass = Pass::eval();
    pass.piece = n == 2 ? 5 : 0;
    for (int64_t begin = 0; begin < rows_of_window; begin += n) {
      const Samples part = samples.slice(begin, begin + n);
      learner.objective->add_score(sums, learner.objective->answer(*learner.model, part, pass),
                                   part);
    }
    const Score score = learner.objective->score(sums.to(Device::cpu).span<double>(), data);
    REQUIRE(std::abs(score.loss - expected) <= 1e-12);
    REQUIRE(score["perplexity"] == Approx(std::exp(score.loss)));
    const auto labels = samples["labels"].to(Device::cpu);
    REQUIRE(score["tokens"] ==
            double(labels.numel() - std::ranges::count(labels.span<int32_t>(), not_judged)));
  }
}

TEST_CASE("a model that has read tokens goes on from its cache", "[golden]") {
  const NoGrad no_grad;
  for (const std::string name : {"gpt2", "llama"}) {
    TextLearner learner(name, {});
    const Tensor tokens = text_samples()["tokens"].slice(0, 1), all = positions_of(tokens);
    const Tensor whole = learner.model->states({tokens, all}, Pass::eval());
    const auto cache = std::make_shared<KeyValueCache>(12);
    Pass pass = Pass::eval();
    Values parts;
    for (const auto& [begin, end] : {std::pair(0, 5), std::pair(5, 6), std::pair(6, 12)}) {
      const auto part = [&](const Tensor& x) {
        return x.reshape({12}).slice(begin, end).reshape({1, end - begin});
      };
      pass.begin = begin;
      const Tensor x = learner.model->states({part(tokens), part(all)}, pass, cache);
      const Values more = to_doubles(x);
      parts.insert(parts.end(), more.begin(), more.end());
    }
    REQUIRE(largest_difference(parts, to_doubles(whole)) <= 1e-13);
  }
}

}  // namespace accrue::test
