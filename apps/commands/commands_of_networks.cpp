#include "apps/commands/commands_of_networks.h"

#include <algorithm>

#include "apps/cli/messages.h"
#include "apps/commands/eval.h"
#include "apps/commands/train.h"
#include "job/memory_advice.h"

namespace accrue::app {
namespace {

bool acts_without_training(const Setting& setting) { return setting.acts_in() != ActsIn::training; }

Settings settings_of_eval(const Settings& all, Request& options) {
  return settings_of_networks(all, options)
      .where(acts_without_training)
      .append(evaluation_settings(options))
      .append(all.in({"Batches", "Several processes"}).where(acts_without_training));
}

}  // namespace

std::vector<Command> commands_of_networks(AskedOfNetworks& asked) {
  Request& options = asked.options;
  const Settings all = settings_of(options);
  return {
      {.name = "train",
       .description = "Train a network from micro-batches",
       .settings = all,
       .work = std::bind_front(train, std::cref(options)),
       .advice = [&] { return advice_for_training(options, spoken()); },
       .is_shared = true},
      {.name = "eval",
       .description = "Loss and accuracy of saved weights",
       .settings = settings_of_eval(all, options),
       .work = [&] { eval(options); },
       .advice = [&] { return advice_for_scoring(options, spoken()); },
       .is_shared = true},
      {.name = "export",
       .description = "Saved weights as an ONNX file",
       .settings = settings_of(asked.onnx, options),
       .work = [&] { export_onnx(options, asked.onnx); },
       .needed = {"--weights", "--out"}},
      Command{
          .name = "plan",
          .description = "The largest micro-batch that fits, and alternatives",
          .settings =
              heeded_by_plan(all).append(settings_of(asked.plan, options)).trying("batch-norm-by"),
          .work = [&] { plan(options, asked.plan); }}
          .taking_all_of(all),
      Command{.name = "info",
              .description = "The build, the machine and a model's layers",
              .settings = heeded_by_info(all).append(settings_of(asked.info, options)),
              .work = [&] { info(options, asked.info); }}
          .taking_all_of(all)};
}

Command command_of_networks(const std::string& name, AskedOfNetworks& asked) {
  const std::vector<Command> all = commands_of_networks(asked);
  return *std::ranges::find(all, name, &Command::name);
}

}  // namespace accrue::app
