#include "job/request.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <ranges>

#include "train/process.h"
#include "train/run_identity.h"

namespace accrue {

Settings settings_of(Request& o) { return detail::table_of(o); }

const std::map<std::string, InitScheme>& detail::init_scheme_names() {
  static const std::map<std::string, InitScheme> names{{"kaiming", InitScheme::kaiming},
                                                       {"xavier", InitScheme::xavier},
                                                       {"lecun", InitScheme::lecun},
                                                       {"normal", InitScheme::normal}};
  return names;
}

const std::map<std::string, RankExchange>& detail::rank_exchange_names() {
  static const std::map<std::string, RankExchange> names{{"auto", RankExchange::automatic},
                                                         {"host", RankExchange::host}};
  return names;
}

const std::map<std::string, Device>& detail::device_names() {
  static const std::map<std::string, Device> names{{"cpu", Device::cpu}, {"cuda", Device::cuda}};
  return names;
}

const std::map<std::string, ScoredSplit>& detail::split_names() {
  static const std::map<std::string, ScoredSplit> names{
      {"both", ScoredSplit::both}, {"train", ScoredSplit::train}, {"test", ScoredSplit::test}};
  return names;
}

void Request::give(const std::string& setting, const std::string& text) {
  settings_of(*this).at(setting).give(text);
  given.insert(setting);
}

void Request::take_model(const std::string& name, const std::string& refusal) {
  for (const auto& domain : domains) {
    if (!is_model_file(name) || !domain->open_model(name)) continue;
    model_name = name;
    other_model = {};
    return;
  }
  other_model = {name, refusal};
}

std::string Request::data_name() const {
  if (!data.empty()) return data;
  return domains.model(model_name).data;
}

DataRequest Request::data_request(DataUse use) const {
  DataRequest asked{.data = data_name(),
                    .use = use,
                    .learned = sample,
                    .known_classes = class_count_of_weights,
                    .given = given,
                    .value_of = [this](const std::string& name) {
                      const Settings all = settings_of(*this);
                      return all.has(name) ? all.at(name).text() : std::string();
                    }};
  if (!memory_limit.empty()) asked.memory_limit = parse_bytes(memory_limit);
  return asked;
}

Batches Request::batches_of(int64_t samples) const {
  check(samples > 0, "{} has no samples: expected at least one", data_name());
  check(micro_batch != auto_micro_batch,
        "--micro-batch auto is chosen by train and bench train: expected a number here");
  const std::string data_has = fmt::format("{} has {}", data_name(), counted(samples, "sample"));
  check(micro_batch <= samples,
        "--micro-batch {} is larger than the data: {}; expected --micro-batch {} or less",
        micro_batch, data_has, samples);
  // Checked before the two are multiplied, which could overflow.
  check(!accum || *accum <= samples / micro_batch,
        "--micro-batch {} x --accum {} is larger than the data: {}; expected --accum {} or less",
        micro_batch, accum.value_or(0), data_has, samples / micro_batch);
  if (accum && effective_batch)
    check(*accum * micro_batch == *effective_batch,
          "--micro-batch {} x --accum {} is {}, but --effective-batch is {}; leave out --accum and "
          "it is derived",
          micro_batch, *accum, *accum * micro_batch, *effective_batch);
  const int64_t effective = effective_batch ? *effective_batch : micro_batch * accum.value_or(4);
  check(effective <= samples,
        "an effective batch of {}{} is larger than the data: {}; expected --effective-batch {} or "
        "less",
        effective,
        effective_batch
            ? ""
            : fmt::format(" (--micro-batch {} x --accum {})", micro_batch, effective / micro_batch),
        data_has, samples);
  return {std::min(micro_batch, effective), effective, batches.piece};
}

TrainingOptions Request::training(const Dataset& data) const {
  TrainingOptions result = training_with(batches_of(data.size()), data);
  check(!noise_scale || result.batches.accumulation_steps() > 1,
        "--noise-scale compares a window with its first micro-batch, but {} is one micro-batch: "
        "expected a smaller --micro-batch, or no --noise-scale",
        result.batches.describe());
  detail::check_options(result);
  domains.of_model(model_name).check_run(result.total_steps(data.size()));
  return result;
}

TrainingOptions Request::to_plan(const Dataset& data) const {
  if (micro_batch != auto_micro_batch) return training_with(batches_of(data.size()), data);
  check(!accum,
        "--micro-batch auto derives the number of micro-batches: expected --effective-batch "
        "instead of --accum {}",
        accum.value_or(0));
  Request smallest = *this;
  smallest.effective_batch = effective_batch.value_or(default_effective_batch);
  smallest.micro_batch = 1;
  return training_with(smallest.batches_of(data.size()), data);
}

ObjectivePtr Request::objective_on(const Dataset& data) const {
  return domains.of_model(model_name).objective(data);
}

const Field* Request::told_apart(const Dataset& data) const {
  return domains.of_model(model_name).told_apart(domains.model(model_name), data);
}

std::optional<Classes> Request::classes_in(const Dataset& data) const {
  const Field* const field = told_apart(data);
  return field ? std::optional(classes_of(*field)) : std::nullopt;
}

SampleSpec Request::sample_in(const Dataset& data) const {
  const DomainModel about = domains.model(model_name);
  const SampleSpec here = (sample.fields.empty() ? about.sample : sample).in(data);
  if (!class_count_of_weights) return here;
  check(*class_count_of_weights >= here.classes(),
        "{} is of a network that knows {} {}, but {} has {}: expected data of the same tokenizer",
        weights.empty() ? model_title() : weights, *class_count_of_weights, about.pieces, data.name,
        here.classes());
  return here.with(here.input().shape, *class_count_of_weights);
}

ModelFactory Request::factory(const SampleSpec& sample_of_model) const {
  return domains.of_model(model_name).factory(model_name, network, sample_of_model);
}

int64_t Request::steps_in(int64_t windows) const {
  const auto players =
      domains.of_model(model_name).players(network, domains.model(model_name).sample, *this);
  if (players.empty() || order == Order::simultaneous) return windows;
  int64_t steps = 0;
  for (const PlayerOptions& player : players) steps += windows / player.every * player.times;
  return steps;
}

Metadata Request::metadata_of(const SampleSpec& sample_of_model) const {
  Metadata metadata;
  const Settings all = settings_of(*this);
  for (const Setting& setting : all)
    if (setting.is_saved() && all.has_effect(setting) && !setting.text().empty())
      metadata[setting.about.name] = setting.text();
  for (const auto& [name, said] : sample_of_model.said()) metadata[name] = said;
  for (const auto& domain : domains)
    for (const auto& [name, said] : domain->seen(domains.model(model_name))) metadata[name] = said;
  metadata.merge(domains.of_model(model_name).remembered());
  return metadata;
}

TrainingOptions Request::training_with(Batches chosen, const Dataset& data) const {
  TrainingOptions result = *this;
  result.batches = chosen;
  if (result.no_decay.empty()) result.no_decay = domains.model(model_name).no_decay;
  Request o = *this;
  o.no_decay = result.no_decay;
  const Request usual(domains.fresh());
  result.identity = deciding(settings_of(o), settings_of(usual));
  for (const auto& [name, value] : domains.of_model(model_name).identity()) {
    result.identity.values[name] = value;
    result.identity.idle.erase(name);
  }
  if (!memory_limit.empty() && pack == Pack::where_it_pays) result.pack = Pack::off;
  const SampleSpec here = sample_in(data);
  static_cast<Task&>(result) =
      domains.of_model(model_name).task(model_name, network, here, *this, data);
  result.about_weights = o.metadata_of(here);
  for (const auto& [name, value] : domains.of_model(model_name).taught_by(data))
    if (value.empty()) result.about_weights.erase(name);
    else result.about_weights[name] = value;
  const DomainModel about = domains.model(model_name);
  if (!about.has_own_pixels && data.field(about.input()).encoding == Encoding::number) {
    const bool sees_pixels = std::ranges::any_of(
        result.objective->inputs(),
        [&](const std::string& field) { return data.field(field).encoding == Encoding::pixel; });
    if (!sees_pixels)
      for (const char* of_pixels : {"mean", "std"}) result.about_weights.erase(of_pixels);
    result.about_weights[inputs_key] = inputs_as_given;
  }
  if (const auto classes = classes_in(data)) add_classes(*classes, result.about_weights);
  result.checkpoints.origin = {{"command", command_line()}};
  return result;
}

std::vector<std::string> detail::headings_of_networks(const Request& o) {
  std::vector<std::string> headings{"Model and data"};
  for (const auto& domain : o.domains)
    if (const std::string heading = domain->networks_heading(); !heading.empty())
      headings.push_back(heading);
  return headings;
}

std::vector<std::string> detail::names_of_models(const Request& o) {
  std::vector<std::string> names;
  for (const DomainModel& model : o.domains.models()) names.push_back(model.name);
  return names;
}

std::string detail::default_data(const Request& o) {
  const std::string usual = o.domains.model(usual_model).data;
  std::map<std::string, std::vector<std::string>> models_of;
  for (const DomainModel& model : o.domains.models())
    if (model.data != usual) models_of[model.data].push_back(model.name);
  std::string text = usual;
  for (const auto& [data, names] : models_of) {
    std::string who = names[0];
    if (names.size() > 1) {  // then they go by their heading, where they have one
      who = o.domains.of_model(names[0]).networks_heading();
      if (who.empty()) continue;
      who[0] = static_cast<char>(std::tolower(who[0]));
    }
    text += fmt::format("{} {}: {}", text == usual ? ";" : ",", who, data);
  }
  return text;
}

std::vector<std::string> detail::arguments_of(const Request& request) {
  const Request defaults(request.domains.fresh());
  const Settings table = settings_of(request), default_table = settings_of(defaults);
  std::vector<std::string> arguments;
  for (const Setting& setting : table) {
    const std::string text = setting.text(), &name = setting.about.name;
    if (!default_table.has(name) || text == default_table.at(name).text()) continue;
    arguments.push_back("--" + setting.about.name);
    if (!setting.is_flag) arguments.push_back(text);
  }
  return arguments;
}

}  // namespace accrue
