#include "python/given.h"

#include <algorithm>
#include <array>

#include "data/samples.h"
#include "images/domain.h"
#include "layers/named_network.h"
#include "onnx/writer/network_file.h"
#include "python/fetched.h"
#include "python/output_losses_in.h"
#include "train/score.h"

namespace accrue::python {

bool has_named_answers(nb::handle x, const Given::Network& network) {
  return nb::isinstance<nb::dict>(x) || !network.has_one_of_each();
}

Shape Given::Network::input() const {
  if (inputs.empty()) return {1, 28, 28};
  const Shape one = inputs.front().sizes.of(1);
  return Shape(one.sizes().subspan(1));
}

// By which a checkpoint knows its network.
Settings Given::settings(TrainingOptions&) {
  const ActsWith with_labels{{"loss", {"", "cross-entropy"}}};
  Settings s;
  if (network) {
    s.group("Model and data")
        .add(network->description, {.name = "network",
                                    .decides = Decides::result,
                                    .help = "The layers of the network that was given",
                                    .acts_in = ActsIn::answers})
        .add(loss, {.name = "loss",
                    .decides = Decides::result,
                    .help = "cross-entropy of labels; of numbers mse, the mean squared error, l1, "
                            "smooth-l1, or bce where y [N, K] in [0, 1] says of each of K labels "
                            "whether a sample has it; of masks bce, cross-entropy, dice or a sum "
                            "such as bce+dice; without, what fits the data",
                    .takes = "LOSS[+LOSS]",
                    .saved = Saved::with_scores,
                    .acts_in = ActsIn::scores})
        .add(classes, {.name = "classes",
                       .decides = Decides::no_result,
                       .help = "Names of the classes of masks, or of labels that are numbers, by "
                               "their order, for scores and to find them in weights",
                       .takes = "NAME,NAME,...",
                       .acts_in = ActsIn::samples})
        .add(loss_beta, {.name = "loss-beta",
                         .decides = Decides::result,
                         .help = "smooth-l1: where the parabola around 0 ends",
                         .range = zero_or_more,
                         .acts_with = {{"loss", {"smooth-l1"}}},
                         .saved = Saved::with_scores,
                         .acts_in = ActsIn::scores,
                         .costs = Costs::nothing})
        .add(positive_weights,
             {.name = "positive-weights",
              .decides = Decides::result,
              .help = "bce of numbers: how much it counts that a sample has each label, PyTorch's "
                      "pos_weight",
              .takes = "W,W,...",
              .range = {0, 1e6},
              .acts_with = {{"loss", {"bce"}}},
              .saved = Saved::with_scores,
              .acts_in = ActsIn::scores});
    add_settings(s, labels, {}, with_labels);
  }
  return s;
}

Example Given::example(const accrue::Layer& layer, const SampleSpec& sample, int64_t N) const {
  // The program's names are for pixels and numbers.
  const auto is_floating_one = [](const python::Network::Input& input) {
    return input.sizes.dtype == DType::f32;
  };
  if (!network ||
      (network->has_one_of_each() && std::ranges::all_of(network->inputs, is_floating_one)))
    return Domain::example(layer, sample, N);
  std::vector<InputSamples> inputs;
  for (const auto& [name, sizes] : network->inputs) {
    const Shape one = sizes.of(1);
    inputs.push_back({name, Shape(one.sizes().subspan(1)), sizes.dtype});
  }
  return example_of(layer, inputs, network->outputs, N);
}

std::optional<Shape> shape_of_answers(const ModelFactory& make, const Shape& x) {
  const auto model = make();
  try {
    place(*model, DType::f32, Device::meta, 0, GradientStorage::on_demand);
    return predict(*model, Tensor::empty(x.with(0, 1), DType::f32, Device::meta)).shape();
  } catch (const Error&) {
    return {};
  }
}

std::map<std::string, Shape> shapes_of_answers(const Given::Network& network) {
  const auto model = network.make();
  const auto* const named = dynamic_cast<const NamedNetwork*>(model.get());
  if (!named) return {};
  std::vector<Tensor> seen;
  for (const auto& [name, sizes] : network.inputs)
    seen.push_back(Tensor::empty(sizes.of(1), sizes.dtype, Device::meta));
  std::map<std::string, Shape> shapes;
  try {
    const NoGrad no_grad;
    place(*model, DType::f32, Device::meta, 0, GradientStorage::on_demand);
    const auto answers = named->outputs_of(std::move(seen), network.outputs, Pass::eval());
    for (size_t i = 0; i < answers.size(); ++i) shapes[network.outputs[i]] = answers[i].shape();
    return shapes;
  } catch (const Error&) {
    return {};
  }
}

int64_t classes_told_apart(const Shape& answers, const Field& of) {
  const bool has_places = of.values.shape().rank() == 2;
  return answers[has_places ? answers.rank() - 1 : 1];
}

Taken Given::taken() const {
  if (!network) return {};
  return {SampleShape::own, [make = network->make](const Shape& images) {
            return shape_of_answers(make, images).has_value();
          }};
}

std::optional<int64_t> Given::answers_to(const Shape& numbers) const {
  const auto y = network ? shape_of_answers(network->make, numbers) : std::nullopt;
  return y && y->rank() >= 2 ? std::optional((*y)[1]) : std::nullopt;
}

bool Given::ignores(const std::string& setting) const {
  constexpr std::array of_model{"width", "depth", "dropout", "init-scheme", "channels"};
  return network && std::ranges::find(of_model, setting) != of_model.end();
}

std::vector<DomainModel> Given::models() const {
  if (!network) return {};
  if (!arrays)
    return {{.name = given_model,
             .sample = {{{"images", Encoding::pixel, network->input()},
                         {.name = "labels", .encoding = Encoding::index, .classes = 10}}},
             .data = "digits",
             .heeds = {"pack"}}};
  DomainModel model{.name = given_model, .data = given_data, .heeds = {"pack"}};
  for (const Field& field : arrays->train.fields)
    if (field.encoding != Encoding::weight)
      model.sample.fields.push_back({.name = field.name, .encoding = field.encoding});
  model.sample = model.sample.in(arrays->train);
  return {model};
}

ModelFactory Given::factory(const std::string&, const NetworkOptions&, const SampleSpec&) const {
  return network->make;
}

ObjectivePtr Given::objective(const Dataset& data) const {
  if (has_names) return objective_of_names(data);
  check(!data.has("masks") || labels.label_smoothing == 0,
        "--label-smoothing: {} has masks: expected labels, or no --label-smoothing", data.name);
  if (data.has("masks"))
    return segmentation(
        data.field("masks"),
        {.losses = mask_losses_of(loss), .class_weights = labels.weights_of(data.field("masks"))});
  const bool are_numbers = data.has("targets");
  const auto of_numbers = detail::number_losses().find(loss.empty() ? "mse" : loss);
  const bool fits = are_numbers ? of_numbers != detail::number_losses().end()
                                : loss.empty() || loss == "cross-entropy";
  check(fits, "--loss {}: {} has {}: expected {}, or y {}", loss, data.name,
        are_numbers ? "numbers (float32) to answer with" : "classes (integers)",
        are_numbers ? "mse, l1, smooth-l1 or bce" : "cross-entropy",
        are_numbers ? "of integers, the classes" : "of float32, numbers");
  if (!are_numbers) return labels.objective(data);
  check(labels.class_weights.empty(),
        "--class-weights: {} has numbers (float32) to answer with: expected classes (integers), or "
        "with --loss bce --positive-weights",
        data.name);
  if (of_numbers->second == NumberLoss::mse && !data.has("weights")) return regression("images");
  return regression(data.field("targets"), {.loss = of_numbers->second,
                                            .beta = loss == "smooth-l1" ? loss_beta : 1,
                                            .positive_weights = positive_weights,
                                            .weights = data.has("weights") ? "weights" : "",
                                            .input = "images"});
}

ObjectivePtr Given::objective_of_names(const Dataset& data) const {
  const char* const hint = "the data has names: expected it in accrue.loss(...) of an output";
  check(labels.class_weights.empty(), "--class-weights: {}", hint);
  check(labels.label_smoothing == 0, "--label-smoothing: {}", hint);
  check(positive_weights.empty(), "--positive-weights: {}, as pos_weight", hint);
  std::vector<std::string> inputs;
  for (const auto& input : network->inputs) inputs.push_back(input.name);
  return objective_of_outputs(loss, inputs, network->outputs, shapes_of_answers(*network), data);
}

const Field* Given::told_apart(const DomainModel&, const Dataset& data) const {
  if (has_names) return nullptr;
  if (data.has("labels") && data["labels"].shape().rank() == 1) return &data.field("labels");
  return data.has("masks") ? &data.field("masks") : nullptr;
}

Domain::Claim Given::claim(const std::string& data) const {
  return arrays && data == given_data ? Claim::own : Claim::none;
}

std::vector<std::string> Given::data_sets() const {
  return arrays ? std::vector<std::string>{given_data} : std::vector<std::string>{};
}

bool Given::heeds(const std::string& setting, const std::string&) const {
  return setting == "ignore-mask" && arrays->train.has("masks");
}

Datasets Given::load(const DataRequest&) const {
  Datasets given = *arrays;
  for (Dataset* each : {&arrays->train, &arrays->test})
    for (Field& field : each->fields)
      field.values =
          Tensor::without_elements(field.values.shape(), field.values.dtype(), Device::cpu);
  return given;
}

void Given::augment(Dataset& data, const DataRequest& request) const {
  if (claim(request.data) == Claim::own) tell_draws(data);
}

namespace {

// True if each row of [N, K] has one 1 and otherwise 0, as some write classes.
bool are_one_hot(const Tensor& targets) {
  if (targets.shape().rank() != 2 || targets.size(1) < 2 || targets.size(0) == 0) return false;
  return dispatch_wide(targets.dtype(), [&]<class T>() {
    const auto all = targets.span<T>();
    const auto K = static_cast<size_t>(targets.size(1));
    for (size_t begin = 0; begin < all.size(); begin += K) {
      const auto row = all.subspan(begin, K);
      const auto ones = std::ranges::count(row, T(1)), zeros = std::ranges::count(row, T(0));
      if (ones != 1 || ones + zeros != std::ssize(row)) return false;
    }
    return true;
  });
}

// The field's elements. A field that is read on demand gives its first samples alone.
Tensor some_of(const Field& field) {
  constexpr int64_t most = 64;
  if (!field.read) return field.values;
  return gather(Dataset{.name = "arrays", .source = "the caller", .fields = {field}}, 0,
                std::min(field.values.size(0), most))[field.name];
}

}  // namespace

void Given::count_classes(Datasets& data) const {
  const Dataset& train = data.train;
  const Field* const answer = train.has("labels")  ? &train.field("labels")
                              : train.has("masks") ? &train.field("masks")
                                                   : nullptr;
  if (!network || !answer || answer->encoding != Encoding::index) return;
  const bool is_by_class = answer->name == "masks" || answer->has_not_judged ||
                           train.has("weights") || labels.label_smoothing != 0 || labels.by_class ||
                           !labels.class_weights.empty();
  if (!is_by_class || !answer->class_names.empty() || !answer->class_values.empty()) return;
  const auto y = shape_of_answers(network->make, train["images"].shape());
  if (!y || y->rank() < 2) return;
  const int64_t known = classes_told_apart(*y, *answer);
  const std::string name = answer->name;
  for (Dataset* each : {&data.train, &data.test})
    for (Field& field : each->fields)
      if (field.name == name) field.classes = std::max(field.classes, known);
}

void Given::fit(Datasets& data, const DomainModel& model, const DataRequest& request) const {
  const Dataset& train = data.train;
  if (has_names) {
    check(classes.empty(),
          "--classes: the data has names, of which several may be classes: "
          "expected no --classes");
    return;
  }
  check(train.has("images") && (train.has("labels") || train.has("masks") || train.has("targets")),
        "a network of layers learns labels, masks or numbers, but the data set {} has {}: expected "
        "another data set, or arrays",
        train.name, train.fields.empty() ? "no fields" : train.fields.front().name);
  for (const Dataset* each : {&data.train, &data.test})
    if (loss.empty() && each->has("targets") && are_one_hot(some_of(each->field("targets"))))
      fail(
          "y is float32 {} with one 1 in each row and otherwise 0, as some write classes: expected "
          "integers [N], such as y.argmax(axis=1), to learn classes, or --loss mse to learn the "
          "numbers",
          (*each)["targets"].shape());
  labels.check_data(data.train, request.use);
  count_classes(data);
  name_classes(data, classes);
  crop(data, model, request);
}

}  // namespace accrue::python
