#include "train/run_identity.h"

#include <fmt/ranges.h>
#include <zlib.h>

#include <algorithm>
#include <set>
#include <span>
#include <vector>

#include "accumulate/ranks.h"
#include "core/build.h"
#include "data/classes.h"
#include "kernels/compiled_isa.h"

namespace accrue {
namespace {

// The strategy's name, with the micro-batch if the split decides the result.
std::string strategy_text(const TrainingOptions& o) {
  const std::string name = name_in(strategy_names(), o.strategy);
  return facts_of(o.strategy).split_decides
             ? fmt::format("{} of micro-batches of {}", name, o.batches.micro)
             : name;
}

constexpr std::string_view samples_word = " samples, ", identity_of_classes = "class names";

void add_to_checksum(uLong& crc, std::span<const std::byte> bytes) {
  crc = crc32_z(crc, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
}

void add_to_checksum(uLong& crc, const Field& field) {
  const Tensor& values = field.values;
  if (!field.read) {
    const Tensor here = values.device() == Device::cpu ? values : values.to(Device::cpu);
    return add_to_checksum(crc, here.host_bytes());
  }
  const int64_t N = values.size(0);
  std::vector<std::byte> row(values.bytes() / static_cast<size_t>(std::max<int64_t>(N, 1)));
  for (int64_t n = 0; n < N; ++n) {
    field.read(row, n);
    add_to_checksum(crc, row);
  }
}

// "10000 samples, images [10000, 1, 28, 28], labels [10000], CRC-32 89abcdef": the content of the
// data, independent of its location.
std::string fingerprint(const Dataset& data) {
  uLong crc = crc32_z(0, nullptr, 0);
  std::string fields;
  for (const Field& field : data.fields) {
    const Tensor& values = field.values;
    fields += fmt::format("{} {}, ", field.name, values.shape());
    if (!data.checksum) add_to_checksum(crc, field);
  }
  if (data.checksum) crc = data.checksum();
  return fmt::format("{}{}{}CRC-32 {:08x}", data.size(), samples_word, fields, crc);
}

// "cat, dog, fish"; empty if no classes have names.
std::string class_names_in(const Dataset& data) {
  for (const Field& field : data.fields)
    if (!field.class_names.empty() && field.class_values.empty())
      return fmt::format("{}", fmt::join(classes_of(field).names, ", "));
  return {};
}

// A fingerprint without the data's name, which older versions put before it: "photos/: 10000
// samples, ...".
std::string without_place(const std::string& said) {
  const size_t after = said.rfind(samples_word);
  if (after == said.npos) return said;
  const size_t begin = said.find_last_not_of("0123456789", after - 1);
  return begin == said.npos ? said : said.substr(begin + 1);
}

}  // namespace

RunIdentity deciding(const Settings& settings, const Settings& usual) {
  const auto decides = [](const Setting& setting) {
    return setting.about.decides != Decides::no_result;
  };
  const auto said = [](const Setting& setting) {
    const std::string text = setting.text();
    return text.empty() ? std::string("none") : text;
  };
  // Only deciding settings are in this table. So if a setting is idle because of another setting's
  // value, that value decides, too, and differs in a run where the setting is not idle.
  const Settings all = settings.where(decides);
  RunIdentity identity;
  for (const Setting& setting : settings)
    if (!decides(setting)) identity.idle.insert(setting.about.name);
  for (const Setting& setting : all) {
    const std::string& name = setting.about.name;
    if (setting.about.decides == Decides::content) continue;
    identity.values[name] = said(setting);
    if (!all.has_effect(setting)) identity.idle.insert(name);
    if (usual.has(name) && said(usual.at(name)) == said(setting)) identity.usual.insert(name);
  }
  return identity;
}

namespace {

// Adds the values whose names are not there yet.
void add(RunIdentity& all, const RunIdentity& more, const std::string& prefix = {}) {
  for (const auto& [name, value] : more.values) all.values.emplace(prefix + name, value);
  for (const std::string& name : more.idle) all.idle.insert(prefix + name);
  for (const std::string& name : more.usual) all.usual.insert(prefix + name);
}

}  // namespace

RunIdentity run_identity(const TrainingOptions& options, const Dataset& data,
                         const Dataset* scored) {
  const TrainingOptions& o = options;
  const TrainingOptions usual;
  RunIdentity all = deciding(settings_of(o), settings_of(usual));
  Metadata said;  // values beside the settings, or in place of the setting with that name
  const ObjectivePtr objective = o.objective_for(data);
  if (!o.players.empty()) {
    for (const Setting& unused : settings_of(static_cast<const StepOptions&>(o)))
      all.values.erase(unused.about.name);
    said["order"] = o.order == Order::alternating ? "alternating" : "simultaneous";
  }
  const StepOptions usual_step;
  for (const PlayerOptions& network : o.networks(objective)) {
    const std::string prefix = network.name.empty() ? "" : network.name + ".";
    add(all, deciding(settings_of(network.step), settings_of(usual_step)), prefix);
    said[prefix + "beta2"] = fmt::format("{}", network.step.chosen_beta2(o.batches.effective));
    said[prefix + "schedule"] = Schedule(o.schedule_of(network, data.size())).describe();
    if (!o.players.empty())
      said[network.name] = fmt::format("every {} windows, {} times", network.every, network.times);
  }
  add(all, o.identity);
  said["data"] = fingerprint(data);
  if (scored) said[identity_of_scores] = fingerprint(*scored);
  if (const std::string names = class_names_in(data); !names.empty())
    said[std::string(identity_of_classes)] = names;
  said["objective"] = objective->name();
  said["effective-batch"] = fmt::format("{}", o.batches.effective);
  said["strategy"] = strategy_text(o);
  for (const auto& [name, value] : said) {
    all.values[name] = value;
    all.idle.erase(name);
    all.usual.erase(name);
  }
  return all;
}

Metadata rounding_identity(const TrainingOptions& options, const Objective& objective,
                           Device device) {
  const Batches& batches = options.batches;
  const int ranks = options.ranks ? options.ranks->count() : 1;
  Metadata all{{"micro-batch", fmt::format("{}", batches.micro)},
               {"device", std::string(name(device))},
               {"ranks", fmt::format("{}", ranks)},
               {"matrix products", matrix_products()},
               {"compiled for", compiled_isa()},
               {"version", version()}};
  if (batches.piece > 0) all["sequence-piece"] = fmt::format("{}", batches.piece);
  if (options.batch_norm == BatchNormOver::window && objective.forwards() > 1)
    all["batch-norm-by"] = options.batch_norm_by == BatchNormBy::walk ? "walk" : "keep";
  return all;
}

Metadata in_words_of(const RunIdentity& here, Metadata checkpoint) {
  if (const auto data = checkpoint.find("data"); data != checkpoint.end())
    data->second = without_place(data->second);
  for (const std::string& name : here.idle) checkpoint.erase(name);
  std::erase_if(checkpoint, [&](const auto& entry) {
    return entry.second == "none" && !here.values.contains(entry.first);
  });
  for (const auto& [name, value] : here.values)
    if (here.idle.contains(name) || here.usual.contains(name) || name == identity_of_scores ||
        name == identity_of_classes)
      checkpoint.emplace(name, value);
  return checkpoint;
}

std::string differences(const Metadata& checkpoint, const Metadata& here) {
  std::set<std::string> names;
  for (const Metadata* side : {&checkpoint, &here})
    for (const auto& [name, value] : *side) names.insert(name);
  const auto value_in = [](const Metadata& side, const std::string& name) {
    const auto found = side.find(name);
    return found == side.end() ? std::string("unknown") : found->second;
  };
  std::string lines;
  for (const std::string& name : names) {
    const std::string then = value_in(checkpoint, name), now = value_in(here, name);
    if (then != now) lines += fmt::format("\n  {}: {} in the checkpoint, {} here", name, then, now);
  }
  return lines;
}

}  // namespace accrue
