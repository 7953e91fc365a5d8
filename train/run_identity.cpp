#include "train/run_identity.h"

#include <fmt/ranges.h>
#include <zlib.h>

#include <algorithm>
#include <set>
#include <span>
#include <vector>

#include "accumulate/ranks.h"
#include "data/classes.h"
#include "kernels/compiled_isa.h"
#include "train/build.h"

namespace accrue {
namespace {

// With the split where that decides the result.
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

// "10000 samples, images [10000, 1, 28, 28], labels [10000], CRC-32 89abcdef": what the data holds,
// wherever it lies.
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

// Without the name of the data that stood before it: "photos/: 10000 samples, ...".
std::string without_place(const std::string& said) {
  const size_t after = said.rfind(samples_word);
  if (after == said.npos) return said;
  const size_t begin = said.find_last_not_of("0123456789", after - 1);
  return begin == said.npos ? said : said.substr(begin + 1);
}

}  // namespace

Metadata deciding(const Settings& settings) {
  Metadata all;
  for (const Setting& setting : settings) {
    if (setting.about.decides == Decides::no_result) continue;
    const std::string text = setting.text();
    all[setting.about.name] = text.empty() ? "none" : text;
  }
  return all;
}

Metadata run_identity(const TrainingOptions& options, const Dataset& data, const Dataset* scored) {
  const TrainingOptions& o = options;
  Metadata all = deciding(settings_of(o));
  const ObjectivePtr objective = o.objective_for(data);
  if (!o.players.empty()) {
    for (const Setting& unused : settings_of(static_cast<const StepOptions&>(o)))
      all.erase(unused.about.name);
    all["order"] = o.order == Order::alternating ? "alternating" : "simultaneous";
  }
  for (const PlayerOptions& network : o.networks(objective)) {
    const std::string prefix = network.name.empty() ? "" : network.name + ".";
    for (const auto& [name, value] : deciding(settings_of(network.step)))
      all[prefix + name] = value;
    // These say more than the setting of their name.
    all[prefix + "beta2"] = fmt::format("{}", network.step.chosen_beta2(o.batches.effective));
    all[prefix + "schedule"] = Schedule(o.schedule_of(network, data.size())).describe();
    if (!o.players.empty())
      all[network.name] = fmt::format("every {} windows, {} times", network.every, network.times);
  }
  all.insert(o.identity.begin(), o.identity.end());
  all["data"] = fingerprint(data);
  if (scored) all[identity_of_scores] = fingerprint(*scored);
  if (const std::string names = class_names_in(data); !names.empty())
    all[std::string(identity_of_classes)] = names;
  all["objective"] = objective->name();
  all["effective-batch"] = fmt::format("{}", o.batches.effective);
  all["strategy"] = strategy_text(o);
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

Metadata in_words_of(const Metadata& here, Metadata checkpoint) {
  for (const char* told : {"init", "init-scheme", "image-size"}) checkpoint.erase(told);
  // Once the place of a base was told, or that there is none.
  if (const auto base = checkpoint.find("base"); base != checkpoint.end() && base->second == "none")
    checkpoint.erase(base);
  if (const auto data = checkpoint.find("data"); data != checkpoint.end())
    data->second = without_place(data->second);
  for (const auto& [name, value] : here) {
    const bool is_unused = value == "none" || value == "no" || value == "micro";
    if (is_unused || name == identity_of_scores || name == identity_of_classes)
      checkpoint.emplace(name, value);
  }
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
