// Weights files describe themselves.

#include "tests/support/cli.h"
#include "tests/support/image_files.h"

namespace accrue::test {

TEST_CASE("weights know their model and its normalization", "[cli][full]") {
  const Folder folder;
  const std::string w = folder / "w";
  const std::string trained =
      succeed("train --model cnn-gn --width 0.25 --mean 0.1 --std 0.3 --steps 3 --save " + w +
              " --checkpoint-dir " + (folder / "c"));
  const std::string accuracy = trained.substr(trained.find("test accuracy"), 30);
  const Metadata said = read_safetensors_header(w).metadata;
  for (const auto& [name, text] : Metadata{{"model", "cnn-gn"},
                                           {"width", "0.25"},
                                           {"mean", "0.1"},
                                           {"std", "0.3"},
                                           {"classes", "10"},
                                           {"image", "1x28x28"},
                                           {"format", "pt"}}) {
    INFO(name);
    REQUIRE(said.at(name) == text);
  }
  REQUIRE(said.contains("accrue"));
  // Commands need no other options about the weights.
  REQUIRE_THAT(succeed("eval --split test --init " + w), ContainsSubstring(accuracy));
  succeed("train --steps 0 --init " + w + " --save " + (folder / "again"));
  REQUIRE(largest_difference(w, folder / "again") == 0);

  // The weights of a checkpoint have the same metadata.
  REQUIRE(read_safetensors_header(folder / "c/step-00000003/weights.safetensors").metadata == said);

  refuse("eval --model mlp --init " + w, "--model is mlp, but they were trained with cnn-gn");
  refuse("eval --std 1 --init " + w, "--std is 1, but they were trained with 0.3");

  // Files that PyTorch writes do not describe themselves.
  write_safetensors(folder / "plain", read_safetensors(w), {{"format", "pt"}});
  const std::string plain =
      "eval --split test --width 0.25 --model cnn-gn --init " + (folder / "plain");
  const std::string assumed =
      "does not say how its pixels were normalized: (x - 0.5) / 0.5 is "
      "assumed; expected --mean and --std";
  const std::string told = succeed(plain + " --mean 0.1 --std 0.3"), otherwise = succeed(plain);
  REQUIRE_THAT(told, ContainsSubstring(accuracy) && !ContainsSubstring(assumed));
  REQUIRE_THAT(otherwise, ContainsSubstring(assumed) && !ContainsSubstring(accuracy));
  refuse("eval --init " + (folder / "plain"),
         "does not say which model its weights are of: expected --model");
}

TEST_CASE("weights of other programs are read, or an error says how", "[cli][full]") {
  const Folder folder;
  const std::string w = folder / "w", model = " --model mlp-small" + narrow();
  succeed("train" + model + "--steps 1 --save " + w);
  const NamedTensors weights = read_safetensors(w);
  const auto renamed = [&](const std::string& prefix, DType dtype) {
    NamedTensors other;
    for (const auto& [name, tensor] : weights) {
      const std::vector<double> values = to_doubles(tensor);
      other.emplace_back(prefix + name,
                         dtype == DType::f64 ? Tensor::from(values, tensor.shape()) : tensor);
    }
    write_safetensors(folder / "other", other);
    return model + " --steps 0 --init " + (folder / "other") + " --save " + (folder / "again");
  };
  REQUIRE_THAT(succeed("train" + renamed("", DType::f64)),
               ContainsSubstring("holds float64, which is rounded to float32"));
  REQUIRE(largest_difference(w, folder / "again") == 0);
  refuse("train" + renamed("module.", DType::f32), "every name begins with 'module.'");
  const std::vector<std::string> starts{"PK\3\4 and more of it", "\x80\2\x8a\nl and more"};
  for (const std::string& start : starts)
    refuse("train" + model + "--init " + folder.TemporaryDirectory::write("x.pt", start).string(),
           "python3 -c \"import torch");
}

TEST_CASE("weights in float64 are rounded unless the network has float64", "[cli][full]") {
  if (test_device() != Device::cpu) return;  // on which alone it runs
  const Folder folder;
  const std::string w = folder / "w", again = folder / "again",
                    model = "train --model mlp-small" + narrow();
  const std::string warning = "holds float64, which is rounded to float32";
  succeed(model + "--precision fp64 --steps 2 --save " + w);
  for (const auto& entry : read_safetensors_header(w).entries) REQUIRE(entry.dtype == DType::f64);
  REQUIRE_THAT(succeed(model + "--precision fp64 --steps 0 --init " + w + " --save " + again),
               !ContainsSubstring(warning));
  REQUIRE(largest_difference(w, again) == 0);
  REQUIRE_THAT(succeed(model + "--steps 0 --init " + w + " --save " + (folder / "narrow")),
               ContainsSubstring(warning));
  const NamedTensors wide = read_safetensors(w), narrowed = read_safetensors(folder / "narrow");
  for (size_t i = 0; i < wide.size(); ++i) {
    REQUIRE(narrowed[i].second.dtype() == DType::f32);
    std::vector<double> values = to_doubles(wide[i].second);
    for (double& value : values) value = static_cast<float>(value);
    REQUIRE(to_doubles(narrowed[i].second) == values);
  }
  REQUIRE_THAT(succeed("eval --split test --init " + w), ContainsSubstring(warning));
  REQUIRE_THAT(succeed("eval --split test --precision fp64 --init " + w),
               !ContainsSubstring(warning));
}

TEST_CASE("training goes on from weights of other classes, with a new head", "[cli][full]") {
  const Folder folder, few;
  const std::string w = folder / "w", again = folder / "again",
                    model = " --model cnn-bn" + narrow();
  succeed("train" + model + "--steps 1 --save " + w);
  for (int i = 0; i < 24; ++i)
    few.TemporaryDirectory::write(fmt::format("{}/{}.png", "abc"[i % 3], i),
                                  png_of(some_planes(1, 28, 28)));
  const std::string data = " --micro-batch 4 --data " + few.path().string();
  REQUIRE_THAT(succeed("train --steps 0 --init " + w + data + " --save " + again),
               ContainsSubstring(fmt::format("11: 10 classes in {}, 3 here: made new\n", w)));
  const NamedTensors before = read_safetensors(w), after = read_safetensors(again);
  REQUIRE(before.size() == after.size());
  for (size_t i = 0; i < before.size(); ++i) {
    const auto& [name, x] = before[i];
    const Tensor& y = after[i].second;
    INFO(name);
    REQUIRE(after[i].first == name);
    if (name.starts_with("11.")) REQUIRE(y.shape() == x.shape().with(0, 3));
    else REQUIRE(to_doubles(y) == to_doubles(x));
  }
  REQUIRE(read_safetensors_metadata(again).at("classes") == "3");
  // The new head has the same initial values as in a new network.
  succeed("train" + model + "--steps 0 --save " + (folder / "new") + data);
  const auto head_of = [](const std::string& path) {
    for (const auto& [name, x] : read_safetensors(path))
      if (name == "11.weight") return to_doubles(x);
    return std::vector<double>();
  };
  REQUIRE(!head_of(again).empty());
  REQUIRE(head_of(again) == head_of(folder / "new"));
  // The weights know only the classes that they learned.
  refuse("eval --init " + w + " --data " + few.path().string(), "knows the classes 0, 1, 2");
  // A new head does not allow another width, or another input of the head.
  refuse("train --init " + w + " --model cnn --width 0.25" + data, "trained with cnn-bn");
  write_safetensors(folder / "plain", before);
  const Output wider =
      accrue_run("train --model cnn-bn --width 2 --init " + (folder / "plain") + data);
  REQUIRE(wider.status == 1);
  REQUIRE_THAT(wider.text,
               ContainsSubstring("11.weight is f32") && ContainsSubstring("0.weight is f32"));
  NamedTensors without_bias = before;
  std::erase_if(without_bias, [](const auto& tensor) { return tensor.first == "11.bias"; });
  write_safetensors(folder / "plain", without_bias);
  const Output lacks = accrue_run("train" + model + "--init " + (folder / "plain") + data);
  REQUIRE(lacks.status == 1);
  REQUIRE_THAT(lacks.text, ContainsSubstring("11.bias [3] is missing"));
}

TEST_CASE("layers are frozen by name", "[cli]") {
  const Folder folder;
  const std::string w = folder / "w", tuned = folder / "tuned", log = folder / "log";
  succeed("train --model cnn-bn --width 0.25 --steps 1 --save " + w);
  const std::string train = "train --steps 2 --init " + w;
  const std::string said = succeed(train + " --freeze backbone --clip-norm 1 --log-histograms 1" +
                                   " --log-dir " + log + " --save " + tuned);
  REQUIRE_THAT(said, ContainsSubstring(", of which 330 are trained |") &&
                         ContainsSubstring("predicted to the byte"));
  // All BatchNorms run as in evaluation, so the split does not matter.
  REQUIRE(said.find("warning: BatchNorm") == std::string::npos);
  REQUIRE_THAT(succeed(train + " --freeze 0,1"), ContainsSubstring("warning: BatchNorm"));
  const NamedTensors before = read_safetensors(w), after = read_safetensors(tuned);
  REQUIRE(before.size() == after.size());
  for (size_t i = 0; i < before.size(); ++i) {
    const auto& name = before[i].first;
    INFO(name);
    REQUIRE(after[i].first == name);
    REQUIRE((to_doubles(before[i].second) == to_doubles(after[i].second)) !=
            name.starts_with("11."));
  }
  for (const fs::directory_entry& file : fs::directory_iterator(log))
    if (const std::string text = file_bytes(file.path().string());
        file.path().filename().string().starts_with("events."))
      REQUIRE((text.find("gradients/11.weight") != std::string::npos &&
               text.find("gradients/0.weight") == std::string::npos));
  REQUIRE_THAT(succeed("plan --memory 64MiB --model cnn-bn --freeze backbone"),
               ContainsSubstring("--freeze backbone"));
  refuse(train + " --freeze 1,2",
         "no parameters to freeze are called '2': expected 0, 1, 4, 5, 9,");
  refuse("train --model zi2zi --data strokes --freeze backbone", "2 players are trained whole");
}

TEST_CASE("evaluation takes no more than parameters and data", "[cli][memory][full]") {
  if (test_device() == Device::cuda) return;  // where the data is not on the device
  const Folder folder;
  succeed("train --model mlp --steps 0 --save " + (folder / "w"));
  const std::string eval = "eval --init " + (folder / "w") + " --memory-limit ";
  REQUIRE_THAT(succeed(eval + "12MiB"), ContainsSubstring("test accuracy"));
  const Output refused = accrue_run(eval + "10MiB");
  INFO(refused.text);
  REQUIRE(refused.status == 1);
  const std::string advice = "\ntry: --memory-limit ";
  const size_t needed = std::stoul(refused.text.substr(
      std::min(refused.text.find(advice) + advice.size(), refused.text.size())));
  REQUIRE(needed < 12u << 20);
  succeed(eval + std::to_string(needed));
  // Slightly less memory does not suffice.
  REQUIRE(accrue_run(eval + std::to_string(needed - 150'000)).status == 1);
}

}  // namespace accrue::test
