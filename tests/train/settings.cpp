// The table of all options: its contents, and its uses.

#include "train/settings.h"

#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <ranges>

#include "accrue/domains.h"
#include "apps/cli/declare.h"
#include "apps/commands/commands_of_networks.h"
#include "apps/commands/plan.h"
#include "images/contrastive.h"
#include "images/digits.h"
#include "images/domain.h"
#include "job/request.h"
#include "tests/support/catch.h"
#include "train/run_identity.h"

namespace accrue::test {
namespace {

// A valid value of the setting that is not its default.
std::string another_value(const Setting& setting) {
  const std::string& takes = setting.about.takes;
  if (setting.is_flag) return "yes";
  if (takes.find('|') != std::string::npos && takes.find_first_of("NX") != 0) {
    const std::string first = takes.substr(0, takes.find('|'));
    return first == setting.text() ? takes.substr(takes.rfind('|') + 1) : first;
  }
  const bool is_integer = takes.starts_with("INTEGER") || takes == "STEPS" || takes == "VALUE" ||
                          takes == "WINDOWS" || takes == "SECONDS" || takes.starts_with("N|");
  return is_integer ? "7" : "0.0005";
}

Request all_set(const std::vector<std::string>& but = {}) {
  Request options(all_domains());
  for (const Setting& setting : settings_of(options))
    if (std::ranges::find(but, setting.about.name) == but.end())
      setting.set(another_value(setting));
  return options;
}

std::map<std::string, std::string> texts(Request options) {
  std::map<std::string, std::string> all;
  for (const Setting& setting : settings_of(options)) all[setting.about.name] = setting.text();
  return all;
}

Request parsed(std::vector<std::string> arguments) {
  Request options(all_domains());
  CLI::App command;
  app::declare(command, settings_of(options));
  std::ranges::reverse(arguments);
  command.parse(arguments);
  return options;
}

}  // namespace

TEST_CASE("every setting is set by the text that it gives", "[cli][full]") {
  Request options(all_domains());
  for (const Setting& setting : settings_of(options)) {
    INFO(setting.about.name);
    const std::string before = setting.text(), other = another_value(setting);
    REQUIRE(other != before);
    setting.set(other);
    REQUIRE(setting.text() == other);
    if (before.empty()) continue;
    setting.set(before);
    REQUIRE(setting.text() == before);
  }
}

TEST_CASE("a setting acts in one of its cases, where each condition is met", "[cli]") {
  const auto acts = [](const std::string& name,
                       const std::vector<std::pair<std::string, std::string>>& with) {
    Request options(all_domains());
    const Settings all = settings_of(options);
    for (const auto& [other, value] : with) all.at(other).set(value);
    return all.has_effect(all.at(name));
  };
  REQUIRE(!acts("window-passes", {}));
  REQUIRE(!acts("window-passes", {{"batch-norm", "window"}}));
  REQUIRE(!acts("window-passes", {{"batch-norm-by", "walk"}}));
  REQUIRE(acts("window-passes", {{"batch-norm", "window"}, {"batch-norm-by", "walk"}}));
  REQUIRE(acts("loss-scale-init", {{"loss-scale", "dynamic"}}));
  REQUIRE(acts("loss-scale-init", {{"precision", "fp16"}}));
  REQUIRE(!acts("loss-scale-init", {{"precision", "fp16"}, {"loss-scale", "8"}}));
  REQUIRE(acts("layers", {{"model", "llama-tiny"}}));
  REQUIRE(!acts("layers", {{"model", "llama-tiny"}, {"base", "w.safetensors"}}));
  REQUIRE(!acts("no-decay", {}));
  REQUIRE(!acts("no-decay", {{"optimizer", "adamw"}, {"weight-decay", "0"}}));
  REQUIRE(acts("no-decay", {{"optimizer", "adamw"}}));
  REQUIRE(acts("no-decay", {{"weight-decay", "0.1"}}));
}

TEST_CASE("a setting that a model does not use has no effect with it", "[cli]") {
  Request options(all_domains());
  const Settings all = settings_of(options);
  const auto heeding = options.domains.models_that_heed();
  for (const char* name :
       {"width", "depth", "dropout", "init-scheme", "channels", "pack", "sample-every"})
    REQUIRE(heeding.contains(name));
  for (const DomainModel& model : options.domains.models()) {
    all.at("model").set(model.name);
    for (const auto& [name, models] : heeding) {
      INFO(model.name << " " << name);
      REQUIRE(all.has_effect(all.at(name)) == (std::ranges::count(model.heeds, name) > 0));
    }
  }
  all.at("model").set("gpt-tiny");
  REQUIRE(!all.has_effect(all.at("init-scheme")));
}

TEST_CASE("an option that names other options names existing ones", "[cli]") {
  app::AskedOfNetworks asked;
  for (const auto& command : app::commands_of_networks(asked)) {
    const Settings& settings = command.settings;
    for (const Setting& setting : settings) {
      const SettingFacts& about = setting.about;
      INFO(command.name << " " << about.name);
      for (const std::string& other : {about.needs, about.excludes})
        REQUIRE((other.empty() || settings.has(other)));
      REQUIRE((setting.is_output() || about.written_by == WrittenBy::first_rank));
      // On ranks that do not write the file the setting is empty.
      if (setting.is_output()) REQUIRE_NOTHROW(setting.set(""));
    }
  }
}

TEST_CASE("outputs cost nothing, except outputs that costly settings need", "[cli]") {
  Request options(all_domains());
  for (const Setting& setting : app::heeded_by_plan(settings_of(options)))
    REQUIRE(setting.is_output() == (setting.about.name == "checkpoint-dir"));
}

TEST_CASE("a process is passed every option that is not as by default", "[cli][full]") {
  REQUIRE(arguments_of(Request(all_domains())).empty());
  const Request options = all_set({"beta2-half-life"});  // which excludes beta2
  const auto arguments = arguments_of(options);
  REQUIRE(texts(parsed(arguments)) == texts(options));
  for (const auto& [name, text] : texts(options)) {
    INFO(name);
    if (name != "beta2-half-life")
      REQUIRE(std::ranges::find(arguments, "--" + name) != arguments.end());
  }
}

TEST_CASE("a checkpoint knows the settings that decide the result, and no others", "[cli][full]") {
  const Dataset data = make_digits(accrue::Split::train, {.train_size = 100});
  const auto identity_with = [&](const std::string& name, const std::string& text) {
    Request options(all_domains());
    options.micro_batch = 1;
    // The noise scale needs several micro-batches.
    options.effective_batch = name == "noise-scale" ? 2 : 1;
    const Settings settings = settings_of(options);
    if (!name.empty()) settings.at(name).set(text);
    Dataset seen = data;
    if (name == "objective") add_views(seen, Views::equal);  // an objective of views needs them
    return run_identity(options.training(seen), seen).values;
  };
  const Metadata plain = identity_with("", "");
  Request options(all_domains());
  for (const Setting& setting : settings_of(options)) {
    const SettingFacts& about = setting.about;
    INFO(about.name);
    if (about.decides == Decides::content) continue;
    const bool decides = about.decides == Decides::result;
    REQUIRE(plain.contains(about.name) == decides);
    // Another number of micro-batches would contradict the effective batch.
    if (about.name == "accum") continue;
    Metadata changed = identity_with(about.name, another_value(setting));
    if (about.name == "noise-scale") changed["effective-batch"] = plain.at("effective-batch");
    REQUIRE((changed != plain) == decides);
  }
}

TEST_CASE("a run that learns from views records the data that they come from", "[cli]") {
  const auto data_of = [](uint64_t seed) {
    Dataset data = make_digits(accrue::Split::train, {.train_size = 10, .seed = seed});
    add_views(data, Views::equal);
    Request options(all_domains());
    options.micro_batch = options.effective_batch.emplace(1);
    return run_identity(options.training(data), data).values.at("data");
  };
  REQUIRE(data_of(1) == data_of(1));
  REQUIRE(data_of(1) != data_of(2));
}

TEST_CASE("the identity that an earlier version wrote is understood", "[cli][full]") {
  const Dataset data = make_digits(accrue::Split::train, {.train_size = 100});
  Request options(all_domains());
  options.micro_batch = 1;
  options.effective_batch = 1;
  options.schedule.base = 0.01;
  const RunIdentity identity = run_identity(options.training(data), data, &data);
  const Metadata& here = identity.values;
  REQUIRE(
      here.at("data").starts_with("100 samples, images [100, 1, 28, 28], labels [100], CRC-32 "));
  Metadata then = here;
  then["data"] = "a/3 samples, b: " + here.at("data");
  then["init"] = "weights.safetensors";
  then["init-scheme"] = "xavier";
  then["image-size"] = "28x28";
  then["base"] = "none";
  for (const char* unknown : {"test data", "freeze"}) then.erase(unknown);
  REQUIRE(differences(in_words_of(identity, then), here).empty());
  then["data"] = "digits: 99" + here.at("data").substr(3);
  then["seed"] = "2";
  REQUIRE(in_words_of(identity, then).at("data").starts_with("99 samples, "));
  REQUIRE(differences(in_words_of(identity, then), here).starts_with("\n  data: 99 samples, "));
  then.erase("lr");
  then["base"] = "0badc0de";
  REQUIRE_THAT(differences(in_words_of(identity, then), here),
               ContainsSubstring("lr: unknown in the checkpoint, 0.01 here") &&
                   ContainsSubstring("seed: 2 in the checkpoint, 1 here") &&
                   ContainsSubstring("base: 0badc0de in the checkpoint, unknown here"));
}

namespace {

// Images with options that no other build knows: one for a single model, one for every model, and
// one that does not affect the result.
class FutureImages : public Images {
 public:
  std::unique_ptr<Domain> clone() const override { return std::make_unique<FutureImages>(*this); }
  void assign(const Domain& other) override { *this = dynamic_cast<const FutureImages&>(other); }
  Settings settings(TrainingOptions&) override {
    Settings s;
    s.group("Model and data")
        .add(edges, {.name = "edges",
                     .decides = Decides::result,
                     .help = "",
                     .acts_with = {{"model", {"unet"}}}})
        .add(noise, {.name = "noise", .decides = Decides::result, .help = ""})
        .add(colours, {.name = "colours", .decides = Decides::no_result, .help = ""});
    return s;
  }
  std::vector<DomainModel> models() const override { return {}; }

  double edges = 0.5, noise = 0;
  std::string colours = "all";
};

}  // namespace

TEST_CASE("a run goes on from a checkpoint of a build that knows fewer options", "[cli]") {
  const auto identity_of = [](const std::string& name, const std::string& text, bool in_future) {
    Request options(all_domains()), usual(all_domains());
    if (in_future)
      for (Request* each : {&options, &usual}) each->domains.add(std::make_unique<FutureImages>());
    if (!name.empty()) settings_of(options).at(name).set(text);
    return deciding(settings_of(options), settings_of(usual));
  };
  const auto differs = [](const Metadata& checkpoint, const RunIdentity& here) {
    return differences(in_words_of(here, checkpoint), here.values);
  };
  const RunIdentity today = identity_of("", "", false), tomorrow = identity_of("", "", true);
  REQUIRE(!today.values.contains("noise"));
  REQUIRE(tomorrow.values.at("noise") == "0");
  REQUIRE(differs(today.values, tomorrow).empty());
  // "edges" belongs to another model.
  REQUIRE(differs(today.values, identity_of("edges", "0.7", true)).empty());
  REQUIRE(differs(tomorrow.values, identity_of("edges", "0.7", true)).empty());
  REQUIRE(differs(today.values, identity_of("colours", "red", true)).empty());
  REQUIRE(differs(today.values, identity_of("noise", "0.2", true)) ==
          "\n  noise: unknown in the checkpoint, 0.2 here");
  REQUIRE(differs(tomorrow.values, identity_of("noise", "0.2", true)) ==
          "\n  noise: 0 in the checkpoint, 0.2 here");
  REQUIRE(differs(tomorrow.values, identity_of("model", "cnn", true)) ==
          "\n  model: mlp in the checkpoint, cnn here");
}

TEST_CASE("a setting is idle beside values that decide, too", "[cli]") {
  std::string place = "here", kind = "a";
  double of_place = 1, of_kind = 1;
  Settings all;
  all.add(place, {.name = "place", .decides = Decides::no_result, .help = ""})
      .add(kind, {.name = "kind", .decides = Decides::result, .help = ""})
      .add(of_place, {.name = "of-place",
                      .decides = Decides::result,
                      .help = "",
                      .acts_with = {{"place", {"there"}}}})
      .add(of_kind, {.name = "of-kind",
                     .decides = Decides::result,
                     .help = "",
                     .acts_with = {{"kind", {"b"}}}});
  // "place" is idle because it decides nothing. "of-place" is not: it acts in another place, and a
  // run there has the same deciding values. "of-kind" is idle because "kind" decides.
  REQUIRE(deciding(all, {}).idle == std::set<std::string>{"place", "of-kind"});
  kind = "b";
  REQUIRE(deciding(all, {}).idle == std::set<std::string>{"place"});
}

TEST_CASE("values that a setting does not take are refused, naming valid ones", "[cli][full]") {
  Request options(all_domains());
  const Settings settings = settings_of(options);
  const auto refuses = [&](const std::string& name, const std::string& text,
                           const std::string& message) {
    INFO(name << " = " << text);
    const auto before = texts(options);
    REQUIRE_THROWS_WITH(settings.at(name).set(text), message);
    REQUIRE(texts(options) == before);
  };
  const std::string optimizers =
      fmt::format("{}", fmt::join(std::views::keys(optimizer_names()), ", "));
  refuses("optimizer", "adma",
          fmt::format("optimizer is adma: expected {}; did you mean adam?", optimizers));
  refuses("optimizer", "none", fmt::format("optimizer is none: expected {}", optimizers));
  refuses("lr", "fast", "lr is fast: expected a number");
  refuses("lr", "nan", "lr is nan: expected a number");
  refuses("lr", "", "lr is empty: expected a number");
  refuses("lr", "0.1x", "lr is 0.1x: expected a number");
  refuses("epochs", "1.5", "epochs is 1.5: expected a whole number, 0 to 1000000000");
  refuses("steps", "9223372036854775808",
          "steps is 9223372036854775808: expected a whole number, 0 or more");
  refuses("width", "0", "width is 0: expected a number above 0");
  REQUIRE(Interval{.low = 0, .high = 0.5, .without_low = true}.describe() ==
          "above 0 and up to 0.5");
  refuses("micro-batch", "all", "micro-batch is all: expected a whole number above 0, or auto");
  REQUIRE_THROWS_WITH(settings.at("clip-nrom"),
                      "there is no setting clip-nrom; did you mean clip-norm?");
  settings.at("optimizer").set("AdamW");
  REQUIRE(options.optimizer == OptimizerKind::adamw);
}

TEST_CASE("a list is read and written with commas", "[cli][full]") {
  std::vector<double> widths;
  Settings settings;
  settings.add(widths,
               {.name = "widths", .decides = Decides::no_result, .help = "", .range = above_zero});
  settings.at("widths").set("0.5,2");
  REQUIRE(widths == std::vector{0.5, 2.0});
  REQUIRE(settings.at("widths").text() == "0.5,2");
  REQUIRE_THROWS_WITH(settings.at("widths").set("1,,2"),
                      "widths is empty: expected a number above 0");
  REQUIRE_THROWS_WITH(settings.at("widths").set("1,-2"), "widths is -2: expected a number above 0");
}

}  // namespace accrue::test
