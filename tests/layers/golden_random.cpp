// One window for each of 200 random configurations, compared with PyTorch: scripts/golden_random.py
// draws them, computes the window in float64 and derives the bound for each tensor.

#include <cmath>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>

#include "accumulate/window.h"
#include "data/safetensors.h"
#include "kernels/cross_entropy.h"
#include "kernels/losses.h"
#include "kernels/step/round_copies.h"
#include "layers/models.h"
#include "layers/unet.h"
#include "tests/support/catch.h"
#include "tests/support/device.h"
#include "tests/support/paths.h"

namespace accrue::test {
namespace {

using Json = nlohmann::json;
using Numbers = std::vector<int64_t>;
using Values = std::vector<double>;

template <class T>
T find(const std::map<std::string, T>& names, const std::string& name) {
  INFO("looking for " << name);
  REQUIRE(names.contains(name));
  return names.at(name);
}

// Nets

void add_layer(Sequential& net, const std::string& line) {
  std::istringstream stream(line);
  std::string name;
  stream >> name;
  Numbers n;
  for (int64_t number = 0; stream >> number;) n.push_back(number);
  using Add = std::function<void()>;
  const std::map<std::string, Add> layers{
      {"linear", [&] { net.add<Linear>(n.at(0), n.at(1)); }},
      {"linear_relu", [&] { net.add<Linear>(n.at(0), n.at(1), Activation::relu); }},
      {"layer_norm", [&] { net.add<LayerNorm>(n.at(0)); }},
      {"group_norm", [&] { net.add<GroupNorm>(n.at(0), n.at(1)); }},
      {"batch_norm", [&] { net.add<BatchNorm>(n.at(0)); }},
      {"instance_norm", [&] { net.add<InstanceNorm>(); }},
      {"conv",
       [&] {
         const Conv2dShape shape{.stride = n.at(3), .padding = n.at(4), .dilation = n.at(5)};
         net.add<Conv2d>(n.at(0), n.at(1), n.at(2), shape);
       }},
      {"conv_transpose",
       [&] {
         const ConvTranspose2dShape shape{.stride = n.at(3)};
         net.add<ConvTranspose2d>(n.at(0), n.at(1), n.at(2), shape);
       }},
      {"max_pool",
       [&] {
         net.add<MaxPool2d>(Pool2dShape{n.at(0), n.at(1)});
       }},
      {"avg_pool",
       [&] {
         net.add<AvgPool2d>(Pool2dShape{n.at(0), n.at(1)});
       }},
      {"global_avg_pool", [&] { net.add<GlobalAvgPool2d>(); }},
      {"upsample", [&] { net.add<UpsampleNearest>(n.at(0)); }},
      {"flatten", [&] { net.add<Flatten>(); }},
      {"relu", [&] { net.add<Relu>(); }},
      {"leaky_relu", [&] { net.add<LeakyRelu>(); }},
      {"gelu", [&] { net.add<Gelu>(); }},
      {"sigmoid", [&] { net.add<Sigmoid>(); }},
      {"tanh", [&] { net.add<Tanh>(); }},
      {"silu", [&] { net.add<Silu>(); }},
      {"resnet", [&] { net.append(make_resnet(n, 1, NormKind::group)); }},
      {"unet", [&] { net.append(std::make_unique<UNet>(n)); }}};
  find(layers, name)();
}

// Values: the script's generator of integers in [-128, 128).

class Generator {
 public:
  explicit Generator(uint64_t seed) : state_(seed) {}
  int draw() {
    state_ = state_ * 6364136223846793005 + 1442695040888963407;
    return static_cast<int>(state_ >> 56) - 128;
  }
  Values draw(int64_t count, double factor, double offset = 0) {
    Values values(static_cast<size_t>(count));
    for (double& value : values) value = offset + factor * draw();
    return values;
  }

 private:
  uint64_t state_;
};

Tensor make_tensor(const Values& values, const Shape& shape, DType dtype) {
  const Tensor tensor = Tensor::empty(shape, dtype, Device::cpu, Category::data);
  dispatch_floating(dtype, [&]<class T>() {
    for (size_t i = 0; i < values.size(); ++i)
      tensor.span<T>()[i] = T(static_cast<Wide<T>>(values[i]));
  });
  return tensor.to(test_device());
}

Values draw_parameter(Generator& generator, const Parameters::Entry& entry) {
  const Shape& shape = entry.tensor.shape();
  const int64_t count = entry.tensor.numel();
  if (shape.rank() > 1) {
    const double fan = std::log2(double(count / shape[0]));
    return generator.draw(count, std::exp2(std::ceil(-fan / 2)) / 128);
  }
  return generator.draw(count, 1 / 256., entry.name.ends_with("bias") ? 0 : 1);
}

// One configuration

struct Configuration {
  const Json& json;
  DType dtype;
  Strategy strategy;
  Recompute recompute;

  explicit Configuration(const Json& configuration)
      : json(configuration),
        dtype(find<DType>(
            {{"f32", DType::f32}, {"f64", DType::f64}, {"bf16", DType::bf16}, {"f16", DType::f16}},
            json["precision"])),
        strategy(find<Strategy>({{"fused", Strategy::fused},
                                 {"separate", Strategy::separate},
                                 {"moments", Strategy::moments},
                                 {"step_in_backward", Strategy::step_in_backward}},
                                json["strategy"])),
        recompute(find<Recompute>(
            {{"none", Recompute::none}, {"sqrt", Recompute::sqrt}, {"all", Recompute::all}},
            json["recompute"])) {}

  std::unique_ptr<Optimizer> make_optimizer(Parameters& parameters) const {
    const Json& options = json["optimizer"];
    const double weight_decay = options["weight_decay"];
    if (options["kind"] == "sgd")
      return sgd(parameters, {options["momentum"], weight_decay, options["nesterov"]});
    const AdamOptions adam_options{options["beta1"], options["beta2"], options["eps"],
                                   weight_decay};
    return options["kind"] == "adam" ? adam(parameters, adam_options)
                                     : adamw(parameters, adam_options);
  }
  WindowOptions window_options() const {
    WindowOptions options{.effective_batch_size = json["effective_batch"],
                          .strategy = strategy,
                          .loss_scale = json["loss_scale"].get<double>()};
    if (json["clip_norm"] > 0) options.clip_norm = json["clip_norm"];
    return options;
  }
};

// All samples of a window, and the loss of a model's answers to some of the samples.
struct Problem {
  std::string loss;
  Tensor x, target;

  Problem(const Configuration& configuration, const Layer& model, Generator& generator)
      : loss(configuration.json["loss"]) {
    Numbers sizes = configuration.json["shape"];
    const Numbers micro_batches = configuration.json["micro_batches"];
    sizes.insert(sizes.begin(), std::accumulate(micro_batches.begin(), micro_batches.end(), 0));
    const Shape shape{std::span<const int64_t>(sizes)};
    const DType dtype = configuration.dtype;
    x = make_tensor(generator.draw(shape.numel(), 1 / 128.), shape, dtype);

    const NoGrad no_grad;
    const Shape answer = model(x, Pass::eval()).shape();
    if (loss == "cross_entropy") {
      std::vector<int32_t> labels(static_cast<size_t>(answer[0]));
      for (int32_t& label : labels)
        label = (generator.draw() + 128) % static_cast<int32_t>(answer[1]);
      target = Tensor::from(labels, {answer[0]}, test_device());
      return;
    }
    Values values = generator.draw(answer.numel(), 1 / 128.);
    if (loss == "bce")
      for (double& value : values) value = value > 0;
    target = make_tensor(values, answer, dtype);
  }

  Tensor loss_of(const Tensor& answer, int64_t begin, int64_t end) const {
    using Loss = Tensor (*)(const Tensor&, const Tensor&);
    return find<Loss>(
        {{"cross_entropy", cross_entropy}, {"mse", mse_loss}, {"bce", bce_with_logits}}, loss)(
        answer, target.slice(begin, end));
  }
};

// Checks tensors against `flat`, which holds the expected values of all tensors in turn, each
// within its bound.
class Comparison {
 public:
  Comparison(const Tensor& flat, const Json& bounds) : truth_(to_doubles(flat)), bounds_(bounds) {}

  void next(const std::string& name, const Values& values) {
    REQUIRE(number_ < bounds_.size());
    REQUIRE(begin_ + values.size() <= truth_.size());
    double difference = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      const double here = std::abs(values[i] - truth_[begin_ + i]);
      if (!(here <= difference)) difference = here;  // a NaN stays
    }
    INFO(name);
    CHECK(difference <= bounds_[number_].get<double>());
    begin_ += values.size();
    ++number_;
  }
  void end() const {
    REQUIRE(number_ == bounds_.size());
    REQUIRE(begin_ == truth_.size());
  }

 private:
  Values truth_;
  const Json& bounds_;
  size_t number_ = 0, begin_ = 0;
};

void check_figure(const std::string& name, double value, const Json& truth_and_bound) {
  INFO(name);
  CHECK(std::abs(value - truth_and_bound[0].get<double>()) <= truth_and_bound[1].get<double>());
}

void run(const Configuration& configuration, const Tensor& gradient, const Tensor& weights) {
  const Json& json = configuration.json;
  Sequential model;
  for (const Json& line : json["net"]) add_layer(model, line);
  Parameters parameters =
      place(model, configuration.dtype, test_device(), 0, gradient_storage(configuration.strategy));
  Generator generator(json["seed"]);
  for (const auto& entry : parameters.entries())
    entry.tensor.copy_from(
        make_tensor(draw_parameter(generator, entry), entry.tensor.shape(), entry.tensor.dtype()));
  round_copies(parameters);
  const Problem problem(configuration, model, generator);
  const auto optimizer = configuration.make_optimizer(parameters);
  Window window(*optimizer, ScheduleOptions{.base = json["lr"]}, configuration.window_options());

  window.expect(problem.x.size(0));
  int64_t begin = 0;
  for (const int64_t n : json["micro_batches"]) {
    const Tensor answer =
        model(problem.x.slice(begin, begin + n), Pass{.recompute = configuration.recompute});
    window.backward(problem.loss_of(answer, begin, begin + n), n);
    begin += n;
  }
  const StepReport report = window.step();
  REQUIRE_FALSE(report.skipped);

  check_figure("loss", report.loss, json["loss_is"]);
  if (!drops_gradients(configuration.strategy)) {
    check_figure("gradient norm", report.grad_norm, json["norm_is"]);
    Comparison comparison(gradient, json["gradient_bounds"]);
    for (const Window::Gradient& part : window.last_gradients()) {
      Values values = to_doubles(part.sum);
      for (double& value : values) value *= part.scale;
      comparison.next("gradient of " + part.name, values);
    }
    comparison.end();
  }
  Comparison comparison(weights, json["weight_bounds"]);
  for (const auto* entries : {&parameters.entries(), &parameters.buffer_entries()})
    for (const auto& entry : *entries) comparison.next(entry.name, to_doubles(entry.tensor));
  comparison.end();
}

}  // namespace

TEST_CASE("a window of 200 random configurations is PyTorch's", "[.][thorough]") {
  const std::string path = source_folder + "/tests/golden/random";
  const auto tensors = read_safetensors(path + ".safetensors");
  const std::map<std::string, Tensor> golden(tensors.begin(), tensors.end());
  const Json configurations = Json::parse(std::ifstream(path + ".json"));
  REQUIRE(configurations.size() == 200);
  for (size_t i = 0; i < configurations.size(); ++i) {
    Json drawn = configurations[i];
    for (const char* result : {"loss_is", "norm_is", "gradient_bounds", "weight_bounds"})
      drawn.erase(result);
    INFO("configuration " << i << ": " << drawn.dump());
    const std::string number = std::to_string(i);
    try {
      run(Configuration(configurations[i]), golden.at(number + ".gradient"),
          golden.at(number + ".weights"));
    } catch (const Error& error) {
      FAIL_CHECK(error.what());
    }
  }
}

}  // namespace accrue::test
