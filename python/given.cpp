#include "python/given.h"

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

std::vector<DomainModel> Given::models() const {
  if (!network) return {};
  const bool has_arrays = arrays.has_value();
  const Encoding seen = has_arrays ? arrays->train.fields[0].encoding : Encoding::pixel;
  const bool has_targets = has_arrays && arrays->train.has("targets");
  const DomainModel::Field answer = has_targets ? DomainModel::Field{"targets", Encoding::number}
                                                : DomainModel::Field{"labels", Encoding::index};
  return {{.name = given_model,
           .fields = {{"images", seen}, answer},
           .data = has_arrays ? given_data : "digits"}};
}

ModelFactory Given::factory(const std::string&, const ModelOptions&) const { return network->make; }

ObjectivePtr Given::objective(const Dataset& data) const {
  return data.has("targets") ? regression("images") : objective_of(data);
}

Domain::Claim Given::claim(const std::string& data) const {
  return arrays && data == given_data ? Claim::own : Claim::none;
}

std::vector<std::string> Given::data_sets() const {
  return arrays ? std::vector<std::string>{given_data} : std::vector<std::string>{};
}

Datasets Given::load(const DataRequest&) const { return *arrays; }

void Given::fit(Datasets& data, const DomainModel& model, const DataRequest&) const {
  const Dataset& train = data.train;
  check(train.has(model.input()) && (train.has("labels") || train.has("targets")),
        "a network of layers learns labels or numbers, but the data set {} has {}: expected "
        "another data set, or arrays",
        train.name, train.fields.empty() ? "no fields" : train.fields.front().name);
}

}  // namespace accrue::python
