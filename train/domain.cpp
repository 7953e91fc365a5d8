#include "train/domain.h"

#include <algorithm>

#include "core/inside.h"
#include "onnx/writer/network_file.h"

namespace accrue {

bool detail::is_model_file(const std::string& model) {
  return ActsWith::Condition{"model", {any_model_file}}.is_met_by(model);
}

std::vector<PlayerOptions> Domain::players(const NetworkOptions&, const SampleSpec&,
                                           const StepOptions&) const {
  return {};
}

Example Domain::example(const Layer& network, const SampleSpec& sample, int64_t N) const {
  const SampleSpec::Field& input = sample.input();
  const DType dtype = input.encoding == Encoding::index ? DType::i32 : DType::f32;
  return example_of(network, {{input.name, input.shape, dtype}}, {"logits"}, N);
}

const Field* Domain::told_apart(const DomainModel& model, const Dataset& data) const {
  const SampleSpec::Field& answer = model.sample.answer();
  if (answer.is_seen || !data.has(answer.name)) return nullptr;
  const Field& field = data.field(answer.name);
  const bool has_one = answer.encoding == Encoding::index && field.values.shape().rank() == 1;
  return has_one || answer.encoding == Encoding::mask ? &field : nullptr;
}

Task Domain::task(const std::string& model, const NetworkOptions& options, const SampleSpec& sample,
                  const StepOptions& step, const Dataset& data) const {
  Task all{.objective = objective(data), .players = players(options, sample, step)};
  if (all.players.empty()) all.model = factory(model, options, sample);
  return all;
}

std::optional<int64_t> Domain::classes_in(const std::string&) const { return {}; }
void Domain::check_run(int64_t) const {}
std::optional<std::filesystem::path> Domain::directory_of(const std::string&) const { return {}; }
bool Domain::heeds(const std::string&, const std::string&) const { return false; }
void Domain::augment(Dataset&, const DataRequest&) const {}

Domains::Domains(const Domains& others) {
  for (const auto& domain : others) all_.push_back(domain->clone());
}

Domains Domains::fresh() const {
  std::vector<std::unique_ptr<Domain>> all;
  for (const auto& domain : all_) all.push_back(domain->fresh());
  return Domains(std::move(all));
}

Domains& Domains::operator=(const Domains& others) {
  for (size_t i = 0; i < all_.size(); ++i) all_[i]->assign(*others.all_.at(i));
  return *this;
}

std::vector<DomainModel> Domains::models() const {
  std::vector<DomainModel> models;
  for (const auto& domain : all_) std::ranges::move(domain->models(), std::back_inserter(models));
  std::ranges::sort(models, {}, &DomainModel::name);
  return models;
}

std::map<std::string, std::vector<std::string>> Domains::models_that_heed() const {
  std::map<std::string, std::vector<std::string>> all;
  for (const DomainModel& model : models())
    for (const std::string& setting : model.heeds) all[setting].push_back(model.name);
  return all;
}

size_t Domains::number_of_model(const std::string& name) const {
  for (size_t i = 0; i < all_.size(); ++i) {
    const std::vector<DomainModel> models = all_[i]->models();
    if (std::ranges::find(models, name, &DomainModel::name) != models.end()) return i;
  }
  fail("there is no model {}", name);
}

DomainModel Domains::model(const std::string& name) const {
  const std::vector<DomainModel> models = of_model(name).models();
  return *std::ranges::find(models, name, &DomainModel::name);
}

std::string Domains::implied_model(const std::string& asked) const {
  std::string implied;
  for (const auto& domain : all_)
    if (const std::string name = domain->implied_model(asked); !name.empty()) implied = name;
  return implied;
}

const Domain& Domains::of_data(const std::string& data) const {
  const Domain* best = all_.front().get();
  for (const auto& domain : all_) {
    const std::vector<std::string> names = domain->data_sets();
    if (std::ranges::find(names, data) != names.end()) return *domain;
    if (domain->claim(data) >= best->claim(data)) best = domain.get();
  }
  return *best;
}

Normalization Domains::pixels() const {
  for (const auto& domain : all_)
    if (const auto own = domain->pixels()) return *own;
  return {};
}

std::vector<std::string> Domains::data_sets() const {
  std::vector<std::string> names;
  for (const auto& domain : all_) std::ranges::move(domain->data_sets(), std::back_inserter(names));
  return names;
}

}  // namespace accrue
