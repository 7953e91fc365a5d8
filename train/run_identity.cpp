#include "train/run_identity.h"

#include <zlib.h>

#include <set>

#include "train/build.h"

namespace accrue {
namespace {

// With the split where that decides the result: AdamA's v is a sum over the micro-batches.
std::string strategy_text(const TrainingOptions& o) {
  const std::string name = name_in(strategy_names(), o.strategy);
  return o.strategy == Strategy::moments
             ? fmt::format("{} of micro-batches of {}", name, o.batches.micro)
             : name;
}

// "digits: 10000 samples [1, 28, 28], CRC-32 89abcdef"
std::string fingerprint(const Dataset& data) {
  uLong crc = crc32_z(0, nullptr, 0);
  std::string fields;
  for (const auto& [name, values, encoding, classes] : data.fields) {
    const Tensor bytes = values.device() == Device::cpu ? values : values.to(Device::cpu);
    crc = crc32_z(crc, static_cast<const Bytef*>(bytes.view().data), bytes.bytes());
    fields += fmt::format("{} {}, ", name, values.shape());
  }
  return fmt::format("{}: {} samples, {}CRC-32 {:08x}", data.name, data.size(), fields, crc);
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

Metadata run_identity(const TrainingOptions& options, const Dataset& data,
                      const std::string& schedule) {
  TrainingOptions o = options;
  Metadata all = deciding(settings_of(o));
  all.insert(o.identity.begin(), o.identity.end());
  // These say more than the setting of their name.
  all["data"] = fingerprint(data);
  all["objective"] = o.objective_for(data)->name();
  all["effective-batch"] = fmt::format("{}", o.batches.effective);
  all["strategy"] = strategy_text(o);
  all["beta2"] = fmt::format("{}", o.chosen_beta2());
  all["schedule"] = schedule;
  return all;
}

Metadata rounding_identity(Batches batches, Device device) {
  return {{"micro-batch", fmt::format("{}", batches.micro)},
          {"device", std::string(name(device))},
          {"matrix products", matrix_products()},
          {"compiled for", compiled_isa()},
          {"version", version()}};
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
