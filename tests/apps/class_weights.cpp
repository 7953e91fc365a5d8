// How much classes count in a training of labels, as the program is told.

#include <cmath>

#include "tests/support/cli.h"

namespace accrue::test {
namespace {

const std::string few_steps = "--model mlp-small --width 0.25 --no-shuffle ";

std::string data() { return " --data " + few_digits().path().string(); }

}  // namespace

TEST_CASE("labels count by their classes, whatever the micro-batch", "[cli]") {
  const Folder folder;
  const std::string weights = folder / "w.safetensors";
  const auto train = [&](int micro, const std::string& options) {
    const std::string log = folder / "log";
    succeed("train " + few_steps + options + " --steps 2 --effective-batch 8 --micro-batch " +
            std::to_string(micro) + " --json " + log + " --save " + weights + data());
    return json_lines(log);
  };
  const std::string options = "--class-weights 1,0.5,2,1,0.25,1,4,1,1,1 --label-smoothing 0.1";
  const auto whole = train(8, options);
  for (const int micro : {3, 1}) {
    const auto cut = train(micro, options);
    for (const size_t step : {0, 1})
      REQUIRE(cut[step]["loss"].get<double>() ==
              Approx(whole[step]["loss"].get<double>()).epsilon(1e-6));
  }
  REQUIRE(train(8, "")[0]["loss"] != whole[0]["loss"]);
  REQUIRE(train(8, "--label-smoothing 0.1")[0]["loss"] != whole[0]["loss"]);
}

TEST_CASE("balanced weights of classes are told, saved and scored with", "[cli]") {
  const Folder folder;
  const std::string weights = folder / "w.safetensors", log = folder / "log",
                    checkpoints = " --checkpoint-dir " + (folder / "checkpoints");
  const std::string train = "train " + few_steps + "--micro-batch 5 --accum 2 --steps 3 " + data();
  const std::string told = succeed(train + " --class-weights balanced --json " + log + " --save " +
                                   weights + checkpoints);
  REQUIRE_THAT(
      told, ContainsSubstring("class weights 0 ") && ContainsSubstring("balanced by 1400 labels") &&
                ContainsSubstring("by class ") && ContainsSubstring("predicted to the byte"));
  const auto score = json_lines(log).back()["test"];
  double sum = 0;
  for (int k = 0; k < 10; ++k) sum += score["accuracy." + std::to_string(k)].get<double>();
  REQUIRE(score["balanced_accuracy"].get<double>() == Approx(sum / 10));
  // The file has numbers, and eval scores with them.
  const std::string saved = read_safetensors_metadata(weights).at("class-weights");
  REQUIRE(std::ranges::count(saved, ',') == 9);
  REQUIRE_THAT(succeed("eval --split test --init " + weights + data()),
               ContainsSubstring(fmt::format("loss {:.4f}", score["loss"].get<double>())));
  refuse("eval --class-weights balanced --init " + weights + data(),
         "balanced class weights are made of the labels that are trained on");
  // It is another run with other weights.
  const std::string resume = train + checkpoints + " --resume ";
  succeed(resume + "--class-weights balanced");
  refuse(resume + "--class-weights 1,1,1,1,1,1,1,1,1,2",
         "class-weights: balanced in the checkpoint");
  refuse(resume + "--class-weights balanced --label-smoothing 0.5", "label-smoothing: 0 in");
}

TEST_CASE("a score has the accuracy of each class if that is asked for", "[cli]") {
  const Folder folder;
  const std::string weights = folder / "w.safetensors", scores = folder / "scores";
  succeed("train " + few_steps + "--micro-batch 5 --accum 2 --steps 3 --save " + weights + data());
  REQUIRE(!read_safetensors_metadata(weights).contains("label-smoothing"));
  const auto eval = [&](const std::string& options) {
    succeed("eval --split test --json " + scores + " --init " + weights + data() + options);
    return nlohmann::json::parse(file_bytes(scores))["test"];
  };
  const auto plain = eval(""), by_class = eval(" --by-class");
  REQUIRE(!plain.contains("accuracy.0"));
  REQUIRE(by_class["accuracy"] == plain["accuracy"]);
  REQUIRE(by_class["loss"].get<double>() == Approx(plain["loss"].get<double>()).epsilon(1e-6));
  double sum = 0;
  for (int k = 0; k < 10; ++k) sum += by_class["accuracy." + std::to_string(k)].get<double>();
  REQUIRE(by_class["balanced_accuracy"].get<double>() == Approx(sum / 10));
}

TEST_CASE("weights of classes are refused where they do not fit", "[cli]") {
  const std::string train = "train " + few_steps + "--steps 1 --micro-batch 2" + data();
  refuse(train + " --class-weights 1,2", "there are 2 class weights for 10 classes");
  refuse(train + " --class-weights 1,balanced", "expected one of both");
  refuse(train + " --class-weights x", "expected a number, 0 to 1000000, or balanced");
  refuse(train + " --label-smoothing 2", "--label-smoothing is 2: expected a number, 0 to 1");
  refuse(train + " --class-weights 0,1,1,1,1,1,1,1,1,1 --label-smoothing 0.1",
         "the weight of class 0 is 0, but label_smoothing is 0.1");
  refuse(train + " --objective simclr --augment flip --class-weights balanced",
         "--class-weights has no effect with");
  refuse("train --model unet --steps 1 --label-smoothing 0.1", "--label-smoothing has no effect");
  refuse("train --model unet --steps 1 --class-weights balanced",
         "balanced class weights are made of labels, but shapes has none");
  refuse("train --model gpt-tiny --steps 1 --class-weights balanced",
         "--class-weights has no effect with --model gpt-tiny");
  refuse(train + " --strategy moments --class-weights balanced",
         "strategy moments folds each gradient as its share of the window");
}

}  // namespace accrue::test
