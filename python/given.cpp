#include "python/given.h"

#include <algorithm>
#include <array>

#include "images/domain.h"
#include "images/segmentation.h"

namespace accrue::python {

// By which a checkpoint knows its network.
Settings Given::settings(TrainingOptions&) {
  Settings s;
  if (network)
    s.group("Model and data")
        .add(network->description,
             {"network", Decides::result, "The layers of the network that was given"});
  return s;
}

bool Given::ignores(const std::string& setting) const {
  constexpr std::array of_model{"width", "depth", "dropout", "init-scheme"};
  return network && std::ranges::find(of_model, setting) != of_model.end();
}

std::vector<DomainModel> Given::models() const {
  if (!network) return {};
  if (!arrays)
    return {{.name = given_model,
             .fields = {{"images", Encoding::pixel}, {"labels", Encoding::index}},
             .data = "digits"}};
  DomainModel model{.name = given_model, .data = given_data};
  for (const Field& field : arrays->train.fields)
    model.fields.push_back({field.name, field.encoding});
  return {model};
}

ModelFactory Given::factory(const std::string&, const ModelOptions&) const { return network->make; }

ObjectivePtr Given::objective(const Dataset& data) const {
  if (data.has("masks")) return segmentation(data.field("masks"));
  return data.has("targets") ? regression("images") : objective_of(data);
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

void Given::fit(Datasets& data, const DomainModel& model, const DataRequest& request) const {
  const Dataset& train = data.train;
  check(train.has("images") && (train.has("labels") || train.has("masks") || train.has("targets")),
        "a network of layers learns labels, masks or numbers, but the data set {} has {}: expected "
        "another data set, or arrays",
        train.name, train.fields.empty() ? "no fields" : train.fields.front().name);
  crop(data, model, request);
}

}  // namespace accrue::python
