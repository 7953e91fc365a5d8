// Outputs that would replace an input, another output, or a file that the program has not written.

#include "data/png.h"
#include "job/paths.h"
#include "tests/support/cli.h"
#include "tests/support/image_files.h"

namespace accrue::test {
namespace {

using Kind = Path;

void refused(const Paths& paths, const std::string& part) {
  REQUIRE_ERROR(paths.refuse_overwriting(), part);
}

Paths reading(const std::string& path) {
  Paths paths;
  paths.read("--data " + path, path);
  return paths;
}

Paths with(Paths paths, const std::string& what, const fs::path& path, Kind kind = Kind::file) {
  paths.write(what, path, kind);
  return paths;
}

}  // namespace

TEST_CASE("two outputs are not one file, however it is spelt", "[output]") {
  const Folder folder;
  folder.TemporaryDirectory::write("there", "");
  fs::create_symlink(folder.path(), folder / "link");
  fs::create_symlink("new", folder / "dangling");
  fs::create_hard_link(folder / "there", folder / "hard");
  for (const auto& [a, b] : {std::pair{"new", "new"},
                             {"new", "./new"},
                             {"new", "link/new"},
                             {"new", "none/../new"},
                             {"new", "dangling"},
                             {"there", "hard"}})
    refused(with(with({}, "--json", folder / a), "--save", folder / b),
            "--json and --save are one path");
  refused(with(with({}, "--save", folder / "log"), "--log-dir", folder / "log", Kind::directory),
          "--save and --log-dir are one path");
  refused(with(with({}, "--log-dir", folder / "w/log", Kind::directory), "--save", folder / "w"),
          "--save is to be a file, but --log-dir lies in it");
  for (const auto& [option, name] : {std::pair{"--log-dir", "metrics.jsonl"},
                                     {"--log-dir", "samples/x.png"},
                                     {"--checkpoint-dir", "step-00000010/state.safetensors"},
                                     {"--checkpoint-dir", "best/w"}})
    refused(with(with({}, option, folder / "d", Kind::directory), "--save", folder / "d/" + name),
            fmt::format("--save would replace a file of {}", option));
  // Outputs beside each other, and /dev/null.
  Paths good = with(with({}, "--log-dir", folder / "d", Kind::directory), "--checkpoint-dir",
                    folder / "d", Kind::directory);
  good = with(with(good, "--save", folder / "d/w"), "--json", folder / "d/json");
  good = with(with(good, "--csv", "/dev/null"), "--report", "/dev/null");
  good.refuse_overwriting();
}

TEST_CASE("no output replaces what is read", "[output]") {
  const Folder folder;
  const std::string data = folder / "set";
  folder.TemporaryDirectory::write("set/cat/1.png", "x");
  folder.TemporaryDirectory::write("set/manifest.json", "x");
  write_safetensors(folder / "set/w", {{"x", Tensor::from(std::vector<float>{1}, {1})}});
  folder.TemporaryDirectory::write("elsewhere/2.png", "x");
  folder.TemporaryDirectory::write("w", "x");
  fs::create_symlink(folder / "elsewhere", folder / "set/dog");
  fs::create_symlink(folder / "set", folder / "set/cat/cycle");
  fs::create_symlink(folder / "w", folder / "link");
  refused(with(reading(folder / "w"), "--save", folder / "link"), "--save would replace --data");
  for (const char* name : {"set/cat/1.png", "set/cat/../manifest.json", "elsewhere/2.png"})
    refused(with(reading(data), "--json", folder / name), "--json would replace '");
  for (const char* name : {"set/new.png", "set/cat/new.png", "set"}) {
    refused(with(reading(data), "--sheet", folder / name, Kind::sample),
            "taken for a part of the data");
    refused(with(reading(data), "--out", folder / name, Kind::answers),
            "taken for a part of the data");
  }
  with(reading(data), "--save", folder / "set/w").refuse_overwriting();
  with(reading(data), "--save", folder / "set/new").refuse_overwriting();
  with(reading(data), "--out", folder / "setting", Kind::answers).refuse_overwriting();
  with(reading(folder / "none"), "--save", folder / "none").refuse_overwriting();
}

TEST_CASE("answers replace only answers", "[output]") {
  const Folder folder;
  const fs::path answer = folder / "out/x.png";
  const auto check = [&](const std::vector<fs::path>& answers, bool force) {
    reading(folder / "set").check_answers("--out", answers, force);
  };
  check({answer, folder / "out/y.png"}, false);
  REQUIRE_ERROR(check({answer, answer}, true), "the answers to two samples would both be");
  folder.TemporaryDirectory::write("out/x.png", png_of(some_planes(1, 4, 4)));
  check({answer}, true);
  REQUIRE_ERROR(check({answer, folder / "out/y.png"}, false),
                "out/x.png, which accrue has not written");
  folder.TemporaryDirectory::write("out/predictions.csv", "sample,label\n");
  REQUIRE_ERROR(check({folder / "out/predictions.csv"}, false), "accrue has not written");
  folder.TemporaryDirectory::write("out/predictions.csv", "sample,class,cat\n");
  check({folder / "out/predictions.csv"}, false);
  write_png(answer, GrayImage(4, 4));
  REQUIRE(read_png(answer) == GrayImage(4, 4));
  check({answer}, false);
  // Not even with --force.
  fs::create_directory(folder / "set");
  fs::create_symlink(answer, folder / "set/x.png");
  REQUIRE_ERROR(check({answer}, true), "is read by --data");
}

TEST_CASE("commands refuse to write over what they read", "[output]") {
  const Folder folder;
  const std::string w = folder / "w", run = "train --model mlp-small --steps 0 --quiet --data " +
                                            few_digits().path().string() + " ";
  refuse(run + "--json " + w + " --save " + w, "--save " + w + " and --json " + w + " are one");
  refuse(run + "--json - --profile -", "2 outputs are '-'");
  refuse(run + "--ema 0.9 --save " + w + ".pt --json " + w + ".ema.pt", "the average of --save");
  REQUIRE(fs::is_empty(folder.path()));
  succeed(run + "--save " + w);
  refuse(run + "--init " + w + " --save " + w, "--save " + w + " would replace --init");
  folder.TemporaryDirectory::write("run/config.toml", "model = \"mlp-small\"\n");
  const std::string config = folder / "run/config.toml";
  refuse("train --steps 0 --config " + config + " --save " + config, "would replace --config");
  refuse("train --steps 0 --config " + config + " --log-dir " + (folder / "run"),
         "has a config.toml, which is of no log");
  REQUIRE(file_bytes(config) == "model = \"mlp-small\"\n");
  // A run that is refused does not empty a file, either.
  folder.TemporaryDirectory::write("lines", "whole\n");
  refuse(run + "--json " + (folder / "lines") + " --log-dir " + (folder / "run"), "is of no log");
  REQUIRE(file_bytes(folder / "lines") == "whole\n");
  // A data set that the program finds by its name.
  fs::create_directory(folder / "data");
  fs::copy(few_digits().path(), folder / "data/mnist");
  const Output output = shell("cd " + folder.path().string() + " && " + program_path +
                              " train --model mlp-small --data mnist --steps 0 --save "
                              "data/mnist/train-labels-idx1-ubyte");
  REQUIRE(output.status == 1);
  REQUIRE_THAT(output.text, ContainsSubstring("which is read by --data mnist"));
}

}  // namespace accrue::test
