// A domain that is not part of the program. All its code is in this folder. A program needs two
// lines: one to include it, and one to add it to its domains.

#include <CLI/CLI.hpp>

#include "accrue/domains.h"
#include "apps/cli/declare.h"
#include "job/load_data.h"
#include "job/load_network.h"
#include "tests/audio/domain.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"
#include "train/score.h"
#include "train/trainer.h"

namespace accrue::test {
namespace {

struct Losses : Observer {
  std::vector<double> all;
  void on_step(const WindowReport& report) override { all.push_back(report.loss); }
};

Request with_audio(const std::map<std::string, std::string>& given) {
  Request options(all_domains());
  options.domains.add(std::make_unique<Audio>());
  for (const auto& [name, text] : given) {
    settings_of(options).at(name).give(text);
    options.given.insert(name);
  }
  return options;
}

Score score_of(const Layer& network, const Request& options, const Dataset& data) {
  return evaluate(network, *options.objective_on(data), data, 12, DType::f32, Device::cpu);
}

}  // namespace

TEST_CASE("a domain of your own is trained, scored, saved and loaded", "[data]") {
  const Request options = with_audio({{"model", "listener"},
                                      {"clip-length", "40"},
                                      {"epochs", "6"},
                                      {"lr", "0.02"},
                                      {"micro-batch", "12"},
                                      {"effective-batch", "32"}});
  const Datasets data = load_data(options, DataUse::training, {});
  Trainer trainer(options.training(data.train), data.train, Device::cpu);
  Losses losses;
  trainer.run(losses);
  REQUIRE(losses.all.size() == 6 * 16);
  REQUIRE(losses.all.back() < losses.all.front() / 2);
  const Score score = trainer.evaluate(data.test);
  REQUIRE(score["accuracy"] > 90);

  const TemporaryDirectory folder;
  const std::string weights = (folder.path() / "listener.safetensors").string();
  trainer.save_weights(weights);
  const Metadata said = read_safetensors_metadata(weights);
  REQUIRE(said.at("model") == "listener");
  REQUIRE(said.at("image") == "1x40");
  REQUIRE(said.at("classes") == "2");
  REQUIRE(said.at("class-names") == R"(["sine","square"])");
  REQUIRE(said.at("clip-length") == "40");

  const Request later = with_settings_of_weights(with_audio({{"init", weights}}), {});
  REQUIRE(later.domains.get<Audio>().length == 40);
  const Datasets same = load_data(later, DataUse::scoring, {});
  const LoadedNetwork network = load_network(later, later.sample_in(same.train), Device::cpu);
  REQUIRE(score_of(*network.model, later, same.test).loss == score.loss);
  REQUIRE_ERROR(
      with_settings_of_weights(with_audio({{"init", weights}, {"clip-length", "48"}}), {}),
      "--clip-length is 48, but they were trained with 40");
}

TEST_CASE("the options of a domain of your own are like all others", "[data]") {
  Request options = with_audio({});
  const Settings all = settings_of(options);
  CLI::App command;
  app::declare(command, all);
  REQUIRE_THAT(command.help(), ContainsSubstring("--clip-noise") && ContainsSubstring("listener"));
  REQUIRE(!all.has_effect(all.at("clip-noise")));
  all.at("model").give("listener");
  REQUIRE(all.has_effect(all.at("clip-noise")));
  REQUIRE(all.has_effect(all.at("width")));
  REQUIRE(!all.has_effect(all.at("depth")));
  REQUIRE_ERROR(all.at("clip-nose"), "did you mean clip-noise");
  REQUIRE_ERROR(all.at("clip-noise").give("-1"), "clip-noise");
  REQUIRE_ERROR(load_data(with_audio({{"model", "mlp"}, {"data", "waves"}}), DataUse::training, {}),
                "needs images with labels or masks, but the data set waves has clips");
  REQUIRE_ERROR(
      load_data(with_audio({{"model", "listener"}, {"data", "digits"}}), DataUse::training, {}),
      "listens to clips, but the data set digits has images");
}

}  // namespace accrue::test
