#include "train/run_identity.h"

#include <zlib.h>

#include <set>

#include "train/build.h"

namespace accrue {
namespace {

constexpr const char* without = "none";

template <class T>
std::string text(const T& value) {
  return fmt::format("{}", value);
}
template <class T>
std::string text(const std::optional<T>& value) {
  return value ? text(*value) : without;
}
std::string text(bool value) { return value ? "yes" : "no"; }

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
  for (const Tensor* part : {&data.images, &data.labels, &data.masks})
    if (part->defined()) {
      const Tensor bytes = part->device() == Device::cpu ? *part : part->to(Device::cpu);
      crc = crc32_z(crc, static_cast<const Bytef*>(bytes.view().data), bytes.bytes());
    }
  return fmt::format("{}: {} samples, images {}, CRC-32 {:08x}", data.name, data.size(),
                     data.images.shape(), crc);
}

}  // namespace

Metadata run_identity(const TrainingOptions& o, const Dataset& data, const std::string& schedule) {
  Metadata all{{"data", fingerprint(data)},
               {"seed", text(o.seed)},
               {"no-shuffle", text(!o.shuffle)},
               {"effective-batch", text(o.batches.effective)},
               {"strategy", strategy_text(o)},
               {"optimizer", name_in(optimizer_names(), o.optimizer)},
               {"lr", text(o.schedule.base)},
               {"beta1", text(o.beta1)},
               {"beta2", text(o.chosen_beta2())},
               {"beta2-half-life", text(o.beta2_half_life)},
               {"eps", text(o.eps)},
               {"weight-decay", text(o.weight_decay)},
               {"momentum", text(o.momentum)},
               {"nesterov", text(o.nesterov)},
               {"clip-norm", text(o.clip_norm)},
               {"precision", name_in(precision_names(), o.precision)},
               {"loss-scale", text(o.loss_scale)},
               {"loss-scale-init", text(o.dynamic_scale.initial)},
               {"loss-scale-growth", text(o.dynamic_scale.growth)},
               {"loss-scale-interval", text(o.dynamic_scale.interval)},
               {"loss-scale-backoff", text(o.dynamic_scale.backoff)},
               {"loss-scale-hysteresis", text(o.dynamic_scale.hysteresis)},
               {"on-overflow", name_in(on_overflow_names(), o.on_overflow)},
               {"schedule", schedule},
               {"warmup-steps", text(o.schedule.warmup_steps)},
               {"lr-every", text(o.schedule.every)},
               {"lr-gamma", text(o.schedule.gamma)},
               {"lr-floor", text(o.schedule.floor)},
               {"lr-patience", text(o.schedule.patience)},
               {"lr-rise", text(o.schedule.pct_start)},
               {"lr-start-divisor", text(o.schedule.div_factor)},
               {"lr-end-divisor", text(o.schedule.final_div_factor)},
               {"ema", text(o.ema)}};
  all.insert(o.identity.begin(), o.identity.end());
  return all;
}

Metadata rounding_identity(Batches batches, Device device) {
  return {{"micro-batch", text(batches.micro)},
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
