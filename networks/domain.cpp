#include "networks/domain.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "core/inside.h"
#include "networks/domain_verify.h"

namespace accrue {
namespace {

constexpr const char* checksum_name = "model-checksum";

bool is_table(const Dataset& data) { return data.taught.contains(table_key); }

// The samples for this output. Whether there is a choice of outputs is checked where the network is
// made.
SampleSpec sample_of(const NetworkFile& file, const std::string& output) {
  const auto& outputs = file.file().outputs;
  return file.sample(output.empty() && outputs.size() > 1 ? outputs.front().name : output);
}

// The settings of another domain that these networks have, too.
Settings shared(const Settings& others, std::initializer_list<std::string> names) {
  Settings s;
  for (const Setting& setting : others.only(names)) {
    SettingFacts about = setting.about;
    about.acts_with = {{"model", {any_model_file}}};
    about.with_namesake = true;
    s.group(setting.group).add_again(setting, std::move(about));
  }
  return s;
}

}  // namespace

Settings NetworkFiles::settings(TrainingOptions& training) {
  const ActsWith with_files{{"model", {any_model_file}}};
  Settings s = shared(images.settings(training), {"loss", "class-weights", "label-smoothing",
                                                  "by-class", "classes", "ignore-mask"});
  s.append_later(
      shared(tables.settings(training), {"loss", "class-weights", "label-smoothing", "by-class"}));
  s.group("Model and data")
      .add(output, {.name = "output",
                    .decides = Decides::result,
                    .help = "The output of an ONNX file that answers",
                    .takes = "NAME",
                    .unset = "the only one",
                    .acts_with = with_files,
                    .saved = Saved::with_weights})
      .add(trained, {.name = "train",
                     .decides = Decides::result,
                     .help = "Constants of an ONNX file to train like weights; accrue info lists "
                             "them",
                     .takes = "NAME,...",
                     .acts_with = with_files,
                     .saved = Saved::with_weights})
      .add_flag(verifies, true,
                {.name = "verify",
                 .decides = Decides::no_result,
                 .help = "First compare the answers of an ONNX file with onnxruntime's, by "
                         "python3",
                 .acts_with = with_files,
                 .acts_in = ActsIn::answers,
                 .costs = Costs::nothing});
  return s;
}

const NetworkFile& NetworkFiles::file() const {
  check(file_ != nullptr, "no network is open: expected --model FILE.onnx");
  return *file_;
}

bool NetworkFiles::open_model(const std::string& name) {
  if (name == name_ && file_) return true;
  try {
    const auto opened = std::make_shared<const NetworkFile>(name);
    sample_of(*opened, output);
    file_ = opened;
  } catch (const Error& error) {
    fail("model {}: {}", name, error.what());
  }
  name_ = name;
  return true;
}

std::vector<DomainModel> NetworkFiles::models() const {
  if (!file_) return {};
  DomainModel model{.name = name_, .sample = sample_of(*file_, output), .heeds = {"pack"}};
  const bool sees_pixels = model.sample.input().encoding == Encoding::pixel;
  const bool has_masks = model.classes() == "masks";
  model.data = !sees_pixels ? "moons" : has_masks ? "shapes" : "digits";
  model.takes_any_size = has_masks;
  return {model};
}

Metadata NetworkFiles::implied_settings(const std::set<std::string>& given) const {
  const auto size = file().image_size();
  if (!size || given.contains("crop")) return {};
  return {{"image-size", *size}};
}

NetworkFile::Choice NetworkFiles::choice(const SampleSpec& sample) const {
  NetworkFile::Choice made{
      .trained = trained, .output = output, .left_out = {}, .sample = sample.input().shape};
  const std::string& loss = images.mask_loss;
  const Encoding learned = sample.answer().encoding;
  const bool are_labels = sample.answer().name != "masks" && learned == Encoding::index;
  if (detail::number_losses().contains(loss) && loss != "bce") return made;
  if (learned == Encoding::number && loss != "bce") return made;
  const std::string last = file().last_op(output);
  check(last != "Sigmoid" || !are_labels,
        "{}: the output '{}' is a Sigmoid, which says of each class apart whether it is there, but "
        "the data has one class for each sample: expected a file whose output is logits",
        name_, file().output(output).name);
  if (learned == Encoding::index) made.left_out = {"Softmax", "LogSoftmax"};
  else made.left_out = {"Sigmoid"};
  return made;
}

bool NetworkFiles::fill(const SampleSpec& sample, const Parameters& parameters) const {
  file().network(choice(sample))->load(parameters);
  return true;
}

std::optional<std::string> NetworkFiles::own_file(const SampleSpec& sample,
                                                  const Parameters& parameters) const {
  return file().network(choice(sample))->with(parameters);
}

ModelFactory NetworkFiles::factory(const std::string&, const NetworkOptions&,
                                   const SampleSpec& sample) const {
  const auto network = file().network(choice(sample));
  check(std::ranges::any_of(network->weights(), [](const auto& each) { return !each.is_buffer; }),
        "[onnx] {} has no weights to train: expected initializers in the weight slots of nodes, "
        "such as a Conv's, or constants that --train names",
        network->file().path.string());
  return [network] { return network->make(); };
}

ObjectivePtr NetworkFiles::objective_of_numbers(const Dataset& data) const {
  const std::string& loss = images.mask_loss;
  const auto found = detail::number_losses().find(loss.empty() ? "mse" : loss);
  check(found != detail::number_losses().end(),
        "--loss {}: {} has numbers to answer with: expected {}", loss, data.name,
        "mse, l1, smooth-l1 or bce");
  return regression(data.field("targets"), {.loss = found->second,
                                            .weights = data.has("weights") ? "weights" : "",
                                            .input = data.fields.front().name});
}

ObjectivePtr NetworkFiles::objective(const Dataset& data) const {
  if (is_table(data)) return tables.objective(data);
  const bool are_numbers =
      data.has("targets") && data.field("targets").encoding == Encoding::number;
  if (are_numbers) return objective_of_numbers(data);
  const std::string& loss = images.mask_loss;
  check(data.has("masks") || loss.empty() || loss == "cross-entropy",
        "--loss {}: {} has classes: expected cross-entropy", loss, data.name);
  return images.objective(data);
}

void NetworkFiles::remember(const std::string& weights, const Metadata& said) {
  const auto found = said.find(checksum_name);
  check(found == said.end() || found->second == file().checksum(),
        "{} holds weights of another file than '{}': its content was other then (checksum {}, "
        "here {}); expected --model FILE.onnx, the file that was trained",
        weights, name_, found == said.end() ? "" : found->second, file().checksum());
}

Metadata NetworkFiles::remembered() const { return {{checksum_name, file().checksum()}}; }

Metadata NetworkFiles::taught_by(const Dataset& data) const {
  return is_table(data) ? tables.taught_by(data) : images.taught_by(data);
}

// The file's content, wherever it lies.
Metadata NetworkFiles::identity() const {
  return {{"model", "an ONNX file, checksum " + file().checksum()}};
}

const Field* NetworkFiles::told_apart(const DomainModel&, const Dataset& data) const {
  for (const char* name : {"labels", "targets", "masks"}) {
    if (!data.has(name)) continue;
    const Field& field = data.field(name);
    const bool has_one = field.encoding == Encoding::index && field.values.shape().rank() == 1;
    if (has_one || name == std::string("masks")) return &field;
  }
  return nullptr;
}

std::vector<std::string> NetworkFiles::remarks(const std::string&, const Dataset& data) const {
  const SampleSpec sample = models().front().sample.in(data);
  const NetworkFile::Choice made = choice(sample);
  std::vector<std::string> all = file().network(made)->notes();
  if (const std::string last = file().last_op(output); made.left_out.contains(last))
    all.push_back(fmt::format(
        "{}: the output '{}' is a {}: losses, scores and answers take what comes before it", name_,
        file().output(output).name, last));
  if (verifies) all.push_back(verified(file(), trained, output, sample.input().shape));
  return all;
}

std::vector<std::pair<std::string, std::string>> NetworkFiles::facts(
    const SampleSpec& sample) const {
  const OnnxFile& there = file().file();
  std::vector<std::pair<std::string, std::string>> all{
      {"file", fmt::format("{}, opset {}{}", name_, there.opset,
                           there.producer.empty() ? "" : ", by " + there.producer)}};
  for (const OnnxValueInfo& input : there.inputs) all.emplace_back("input", described(input));
  for (const OnnxValueInfo& each : there.outputs) all.emplace_back("output", described(each));
  try {
    const bool is_one = there.inputs.size() == 1 && is_floating(there.inputs[0].type) &&
                        (there.outputs.size() == 1 || !output.empty());
    const auto network = is_one ? file().network(choice(sample)) : file().whole(trained);
    const auto is_buffer = [](const OnnxNetwork::Weight& weight) { return weight.is_buffer; };
    const auto& weights = network->weights();
    const auto buffers = std::ranges::count_if(weights, is_buffer);
    all.emplace_back("weights", fmt::format("{}, and {}", std::ssize(weights) - buffers,
                                            counted(buffers, "buffer")));
    const auto& constants = network->constants();
    all.emplace_back("constants that --train may name",
                     constants.empty() ? "none" : fmt::format("{}", fmt::join(constants, ", ")));
    all.emplace_back("calls", fmt::format("{}", network->calls()));
    for (const std::string& note : network->notes()) all.emplace_back("note", note);
  } catch (const Error&) {
    // Making the network says why, after these facts.
  }
  return all;
}

Descriptions NetworkFiles::descriptions() const {
  Descriptions all = images.descriptions();
  all.merge(tables.descriptions());
  return all;
}

Datasets NetworkFiles::load(const DataRequest& request) const {
  fail("'{}' is no data set", request.data);
}

void NetworkFiles::check_answers(const Dataset& data, const DataRequest& request) const {
  const SampleSpec sample = models().front().sample.in(data);
  const bool are_labels =
      is_table(data) && TableColumns::read(data.taught.at(table_key)).loss == loss_of_labels;
  check(!are_labels || images.mask_loss == "bce" || file().last_op(output) != "Sigmoid",
        "{}: the output is a Sigmoid, and {} has columns of 0 and 1: expected --loss bce, which "
        "takes what comes before it",
        name_, data.name);
  const Shape answer = file().answer(choice(sample));
  const std::string name = fmt::format("the output '{}' of {}", file().output(output).name, name_);
  if (data.has("masks")) {
    const Shape &image = sample.input().shape, &masks = data["masks"].shape();
    const int64_t classes = data.field("masks").class_count();
    check(answer.rank() == 3 && answer[1] == image[1] && answer[2] == image[2],
          "{} is {} for each image, but {} has masks: expected [classes, {}, {}]", name, answer,
          data.name, image[1], image[2]);
    check(answer[0] == classes,
          "{} has {} planes, but the masks {} of {} have {}: expected as many", name, answer[0],
          masks, data.name, counted_classes(classes));
    return;
  }
  const Field* const labels = told_apart({}, data);
  if (!labels) {
    const Shape numbers(data.field("targets").values.shape().sizes().subspan(1));
    check(answer == numbers, "{} is {} for each sample, but {} has numbers {}: expected the same",
          name, answer, data.name, numbers);
    return;
  }
  check(answer.rank() == 1,
        "{} is {} for each sample, but {} has a class for each: expected [classes]", name, answer,
        data.name);
  const int64_t classes = labels->class_count();
  const bool may_lack_some = request.use != DataUse::training;
  check(answer[0] == classes || (may_lack_some && classes < answer[0]),
        "{} has {} numbers, but {} has {}: expected as many; export the network with a last layer "
        "of {}",
        name, answer[0], data.name, counted_classes(classes), classes);
}

void NetworkFiles::fit(Datasets& data, const DomainModel& model, const DataRequest& request) const {
  const std::string input = model.input();
  for (Dataset* each : {&data.train, &data.test}) {
    if (each->fields.empty()) continue;
    Field& first = each->fields.front();
    check(first.encoding == Encoding::pixel || first.encoding == Encoding::number,
          "{} sees pixels or numbers, but the data set {} has {}: expected images or a table",
          name_, each->name, first.name);
  }
  const Dataset& train = data.train;
  if (is_table(train)) tables.fit(data, model, request);
  else if (train.has("labels") || train.has("masks")) images.fit(data, model, request);
  else
    check(train.has("targets"),
          "{} learns labels, masks or numbers, but the data set {} has {}: expected another", name_,
          train.name, train.fields.front().name);
  for (Dataset* each : {&data.train, &data.test})
    if (!each->fields.empty()) each->fields.front().name = input;
  const Shape one = train.fields.front().shape_of(1);
  const Shape sample(one.sizes().subspan(1));
  file().check_takes(sample, fmt::format("the samples of {}", train.name));
  if (request.use != DataUse::prediction) check_answers(train, request);
}

}  // namespace accrue
