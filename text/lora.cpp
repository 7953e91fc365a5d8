#include "text/lora.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "core/inside.h"
#include "text/language_model.h"

namespace accrue {
namespace {

// Far above the numbers of the dropouts in blocks, which begin at 0.
constexpr uint32_t first_dropout_layer = 1 << 16;

const std::vector<std::string> usual_targets{"q_proj", "v_proj", "c_attn"};

using Projections = std::vector<std::pair<std::string, Projection*>>;

Projections projections_of(Module& model) {
  Projections found;
  model.visit_modules([&](const std::string& name, Module& module) {
    if (auto* const projection = dynamic_cast<Projection*>(&module))
      found.emplace_back(name, projection);
  });
  return found;
}

bool is_named(const std::string& name, const std::string& target) {
  return name == target || name.ends_with("." + target);
}

// "self_attn.q_proj", ...: the ends of names that distinguish projections within a block.
std::vector<std::string> ends_of(const Projections& all) {
  std::vector<std::string> ends;
  for (const auto& [name, projection] : all) {
    const size_t number = name.find_first_of("0123456789");
    const std::string end = name.substr(name.find('.', number) + 1);
    if (std::ranges::find(ends, end) == ends.end()) ends.push_back(end);
  }
  return ends;
}

}  // namespace

double LoraOptions::scale() const {
  const double r = double(*rank);
  return chosen_alpha() / (rank_stabilized.value_or(false) ? std::sqrt(r) : r);
}

std::vector<std::string> detail::lora_targets(Module& model, const LoraOptions& options) {
  const Projections all = projections_of(model);
  std::vector<std::string> targets;
  for (const std::string& target : options.targets.empty() ? usual_targets : options.targets) {
    if (target == "all") return ends_of(all);
    if (std::ranges::any_of(all, [&](const auto& p) { return is_named(p.first, target); }))
      targets.push_back(target);
    else
      check(options.targets.empty(),
            "no projections for LoRA are called '{}': expected {}, the end of such a name, or "
            "all",
            target, fmt::join(ends_of(all), ", "));
  }
  return targets;
}

void add_lora(Module& model, const LoraOptions& options) {
  check(options.rank.value_or(0) > 0 && options.chosen_alpha() > 0,
        "LoRA of rank {} and alpha {}: expected both above 0", options.rank.value_or(0),
        options.rank ? options.chosen_alpha() : 0);
  const std::vector<std::string> targets = lora_targets(model, options);
  model.visit_parameters([](const std::string&, Parameter& p) { p.fixed = true; });
  uint32_t number = first_dropout_layer;
  for (const auto& [name, projection] : projections_of(model)) {
    const auto is_meant = [&](const std::string& target) { return is_named(name, target); };
    if (std::ranges::any_of(targets, is_meant)) projection->add_adapter(options, number);
    ++number;
  }
}

void merge_lora(Module& model) {
  for (const auto& [name, projection] : projections_of(model)) projection->merge_adapter();
}

}  // namespace accrue
