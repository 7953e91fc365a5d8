// Weights files say what they are, and what they are not.

#include "tests/support/cli.h"

namespace accrue::test {

TEST_CASE("weights know their model and its normalization", "[cli]") {
  const Folder folder;
  const std::string w = folder / "w";
  const std::string trained =
      succeed("train --model cnn-gn --width 0.25 --mean 0.1 --std 0.3 --steps 3 --save " + w);
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
  // Nothing about them has to be said again.
  REQUIRE_THAT(succeed("eval --split test --init " + w), ContainsSubstring(accuracy));
  succeed("train --steps 0 --init " + w + " --save " + (folder / "again"));
  REQUIRE(largest_difference(w, folder / "again") == 0);

  refuse("eval --model mlp --init " + w, "--model is mlp, but they were trained with cnn-gn");
  refuse("eval --std 1 --init " + w, "--std is 1, but they were trained with 0.3");

  // As PyTorch writes them: they say nothing.
  write_safetensors(folder / "plain", read_safetensors(w), {{"format", "pt"}});
  const std::string plain =
      "eval --split test --width 0.25 --model cnn-gn --init " + (folder / "plain");
  REQUIRE_THAT(succeed(plain + " --mean 0.1 --std 0.3"), ContainsSubstring(accuracy));
  const std::string otherwise = succeed(plain);
  REQUIRE(otherwise.find(accuracy) == std::string::npos);
}

TEST_CASE("weights of other programs are read, or it is said how", "[cli]") {
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
  succeed("train" + renamed("", DType::f64));
  REQUIRE(largest_difference(w, folder / "again") == 0);
  refuse("train" + renamed("module.", DType::f32), "every name begins with 'module.'");
  const std::vector<std::string> starts{"PK\3\4 and more of it", "\x80\2\x8a\nl and more"};
  for (const std::string& start : starts)
    refuse("train" + model + "--init " + folder.TemporaryDirectory::write("x.pt", start).string(),
           "python3 -c \"import torch");
}

TEST_CASE("evaluation takes no more than parameters and data", "[cli][memory]") {
  if (test_device() == Device::cuda) return;  // where the data lies elsewhere
  const Folder folder;
  succeed("train --model mlp --steps 0 --save " + (folder / "w"));
  REQUIRE_THAT(succeed("eval --memory-limit 12MiB --init " + (folder / "w")),
               ContainsSubstring("test accuracy"));
}

}  // namespace accrue::test
