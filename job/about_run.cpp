#include "job/about_run.h"

#include <nlohmann/json.hpp>

#include "core/inside.h"
#include "job/config.h"
#include "job/environment.h"
#include "train/process.h"

namespace accrue {

nlohmann::ordered_json about_run(const Request& request, std::optional<Batches> batches,
                                 Device device) {
  nlohmann::ordered_json about{{"command", "train"},
                               {"model", request.model_title()},
                               {"data", request.data_name()},
                               {"device", name(device)},
                               {"strategy", name_in(strategy_names(), request.strategy)},
                               {"recompute", name_in(recompute_names(), request.recompute)},
                               {"optimizer", name_in(optimizer_names(), request.optimizer)}};
  if (batches) {
    about["batches"] = batches->describe();
    about["micro_batch"] = batches->micro;
    about["effective_batch"] = batches->effective;
    if (batches->piece > 0) about["sequence_piece"] = batches->piece;
  }
  return about;
}

// A setting that the user did not give is needed to repeat the run if it has an unusual value (as
// after `font train`), unless the run's weights record it.
std::string config_of(const Request& request) {
  std::vector<std::string> headings = headings_of_networks(request);
  for (const char* heading : {"Machine", "Batches", "Optimizer", "Loss scale", "Evaluation"})
    headings.emplace_back(heading);
  const Settings all = settings_of(request).in(headings).without({"keep-best"});
  const Request defaults(request.domains.fresh());
  const Settings usual = settings_of(defaults);
  const auto is_given = [&](const Setting& setting) {
    return request.given.contains(setting.about.name);
  };
  const auto is_unusual = [&](const Setting& setting) {
    return setting.text() != usual.at(setting.about.name).text();
  };
  const bool has_weights = !request.init.empty() || !request.domains.implied_model().empty();
  const auto is_of_weights = [&](const Setting& setting) {
    return has_weights && setting.about.saved != Saved::no;
  };
  // Settings that act on some data sets only are left out unless the user set them.
  const auto is_shown = [&](const Setting& setting) {
    return setting.about.data.empty() || is_given(setting) || is_unusual(setting);
  };
  return to_toml(all.where(is_shown), [&](const Setting& setting) {
    return is_given(setting) || (is_unusual(setting) && !is_of_weights(setting));
  });
}

std::vector<std::pair<std::string, std::string>> hyperparameters(const Request& request) {
  std::vector<std::pair<std::string, std::string>> values;
  for (const Setting& setting : settings_of(request))
    if (const std::string text = setting.text();
        setting.group != "Output" && setting.group != "Checkpoints" && !text.empty())
      values.emplace_back(setting.about.name, text);
  return values;
}

std::string summary_of(const Request& request, Device device, const std::string& results) {
  nlohmann::ordered_json all{{"command", command_line()}};
  for (const Setting& setting : settings_of(request))
    if (const std::string text = setting.text(); setting.group != "Output" && !text.empty())
      all["settings"]["--" + setting.about.name] = text;
  all["environment"] = environment(device);
  all.update(nlohmann::ordered_json::parse(results));
  return all.dump();
}

}  // namespace accrue
