// The program, as its users run it. The tests of what it says about memory are in cli_memory.cpp.

#include "tests/support/cli.h"

#include <csignal>
#include <cstdlib>
#include <limits>
#include <map>
#include <regex>

#include "apps/cli/processor.h"
#include "core/cuda.h"
#include "kernels/compiled_isa.h"
#include "tests/support/child.h"

namespace accrue::test {

TEST_CASE("help, version and unknown words", "[output]") {
  for (const char* command : {"", "train", "eval", "plan", "info", "bench", "bench train",
                              "bench memory", "bench kernels"})
    REQUIRE_THAT(succeed(std::string(command) + " --help"), ContainsSubstring("Usage"));
  succeed("--version");
  refuse("train --micro-bacth 4", "there is no option --micro-bacth; did you mean --micro-batch?");
  refuse("train --keep 3", "there is no option --keep; did you mean --keep-best or --keep-last?");
  refuse("train --passes 3", "there is no option --passes; did you mean --window-passes?");
  refuse("trian", "there is no command trian; did you mean train?");
  refuse("train --model resent", "--model is resent: expected cnn, cnn-bn");
  refuse("train --model resent", "did you mean resnet?");
  refuse("train --save ''", "--save is empty: expected FILE.safetensors");
  refuse("train --freeze ''", "--freeze is empty: expected NAME,...");
  refuse("bench memory --effective-batch 4 --micro-batche 2", "did you mean --micro-batches");
  REQUIRE(succeed("") == succeed("--help"));
  REQUIRE(succeed("help bench train") == succeed("bench train --help"));
}

TEST_CASE("the device is chosen and named, or refused with the reason", "[cli]") {
  // It runs without device_arguments(), as a user of this build runs it on this machine.
  const auto run = [](const std::string& device) {
    const std::string data =
        computes_slowly() ? "--data " + few_digits().path().string() : std::string();
    return shell(program_path + " train --model mlp-small --steps 1 " + data + " " + device);
  };
  const std::string reason = cuda::unavailable_reason();
  const Output automatic = run("--device auto"), cuda = run("--device cuda");
  INFO(automatic.text << cuda.text);
  REQUIRE(automatic.status == 0);
  REQUIRE(run("--device cpu").text.find("device:") == std::string::npos);
  if (reason.empty()) {
    REQUIRE(cuda.status == 0);
    REQUIRE_THAT(automatic.text, ContainsSubstring("device: cuda ("));
  } else {
    REQUIRE(cuda.status == 1);
    REQUIRE_THAT(cuda.text, ContainsSubstring("accrue: error: "));
    REQUIRE_THAT(cuda.text, ContainsSubstring(reason));
    REQUIRE_THAT(cuda.text, ContainsSubstring("--device cpu"));
    // On a machine without a GPU the program does not mention it every time.
    const bool told = automatic.text.find("device: cpu (not cuda") != std::string::npos;
    REQUIRE(told == fs::exists("/dev/nvidiactl"));
  }
}

TEST_CASE("the program is chosen for the processor", "[output]") {
  const Folder folder;
  const std::string here = folder.path().string();
  const auto levels = app::isa_levels();
  REQUIRE(app::choose_isa("baseline", "", here) == "baseline");
  std::string best = "baseline";
  for (auto level = levels.rbegin(); level != levels.rend(); ++level) {
    fs::create_directories(folder / *level);
    fs::copy_file("/bin/true", fs::path(folder / *level) / "accrue");
    if (app::supports_isa(*level)) best = *level;
    REQUIRE(app::choose_isa("baseline", "", here) == best);
    if (app::supports_isa(*level)) REQUIRE(app::choose_isa("baseline", *level, here) == *level);
    else REQUIRE_THROWS_WITH(app::choose_isa("baseline", *level, here), ContainsSubstring("lacks"));
  }
  REQUIRE(app::choose_isa("baseline", "baseline", here) == "baseline");
  for (const auto& own : levels) REQUIRE(app::choose_isa(own, "", here) == own);
  REQUIRE(app::choose_isa("native", "", here) == "native");
  REQUIRE_THROWS_WITH(app::choose_isa("native", "baseline", here),
                      ContainsSubstring("is compiled for native, and there is no program for"));

  const std::string own = compiled_isa();
  REQUIRE_THAT(succeed("--isa " + own + " info"),
               ContainsSubstring("| compiled for " + own + " |"));
  refuse("--isa x86-64-v9 info", "--isa x86-64-v9: this program is compiled for " + own);
}

TEST_CASE("info describes every model", "[output]") {
  REQUIRE_THAT(succeed("info --model mlp"), ContainsSubstring("567434 parameters"));
  REQUIRE_THAT(succeed("info --model mlp-small"), ContainsSubstring("203530 parameters"));
  REQUIRE_THAT(succeed("info --model cnn"), ContainsSubstring("0.weight"));
  // The network depends on the image size: at twice the size it has one level more.
  REQUIRE_THAT(succeed("info --model zi2zi --width 0.125 --image-size 128"),
               ContainsSubstring("encoder.6") && !ContainsSubstring("encoder.7"));
  REQUIRE_THAT(succeed("info --model cnn-gn"), ContainsSubstring("group norm"));
  REQUIRE_THAT(succeed("info --model cnn-bn"), ContainsSubstring("running_mean"));
  // He et al. 2016 count 0.27 million for three input channels and shortcuts without parameters.
  const std::string resnet = succeed("info --model resnet");
  REQUIRE_THAT(resnet, ContainsSubstring("272186 parameters"));
  REQUIRE_THAT(resnet, ContainsSubstring("6.downsample.0.weight"));
  REQUIRE_THAT(succeed("info --model resnet-bn"), ContainsSubstring("3.bn1.running_mean"));
  const std::string unet = succeed("info --model unet");
  REQUIRE_THAT(unet, ContainsSubstring("encoder.0  two 3x3 convolutions 1 -> 16"));
  REQUIRE_THAT(unet, ContainsSubstring("decoder.1.0.weight"));
}

TEST_CASE("train logs every step and learns", "[cli]") {
  const Folder folder;
  const std::string text =
      succeed("train --model mlp-small" + narrow() +
              "--steps 20 --log-every 5 --micro-batch 16 --accum 4 --json " + (folder / "log"));
  REQUIRE(std::regex_search(
      text, std::regex(R"(\[Epoch 1\]\[Step 10/20\] loss [0-9.]+ \| [0-9]+ s left \| )"
                       R"([0-9]+ samples/s \| norm [0-9.]+ \| lr 0.001 \| eff. batch 64 \(16 x 4\))"
                       R"( \| peak [0-9.]+ MiB\n)")));
  REQUIRE(std::regex_search(
      text, std::regex("the process took [0-9.]+ MiB( of the host)? at its peak, [0-9.]+ MiB of "
                       "them before it read the data\n")));
  REQUIRE_THAT(text, ContainsSubstring("test accuracy"));
  const auto lines = json_steps(folder / "log");
  REQUIRE(lines.size() == 20);
  for (const char* key : {"epoch", "step", "micro_batches", "samples", "loss", "lr", "grad_norm",
                          "samples_per_s", "peak_bytes"})
    REQUIRE(lines[0].contains(key));
  REQUIRE(lines[9]["step"] == 10);
  REQUIRE(lines[9]["micro_batches"] == 4);
  REQUIRE(lines[9]["samples"] == 64);
  REQUIRE(lines[19]["loss"].get<double>() < 0.7 * lines[0]["loss"].get<double>());
}

TEST_CASE("unet learns masks, and is scored by them", "[cli][full]") {
  if (computes_slowly()) {
    WARN("left out: 2000 test images take minutes here");
    return;
  }
  const Folder folder;
  const std::string text =
      succeed("train --model unet --micro-batch 8 --accum 2 --steps 10 --json " + (folder / "log"));
  REQUIRE_THAT(text, ContainsSubstring("shapes: 10000 training and 2000 test samples"));
  REQUIRE_THAT(text, ContainsSubstring("test Dice 0."));
  REQUIRE_THAT(text, ContainsSubstring("predicted to the byte"));
  const auto score = json_lines(folder / "log").back()["test"];
  const double dice = score["dice"], iou = score["iou"];
  REQUIRE(dice > 0.5);  // all pixels would score 0.3
  REQUIRE(dice == Approx(2 * iou / (1 + iou)));
  REQUIRE(score["samples"] == 2000);
}

TEST_CASE("a model and a data set of different tasks are refused", "[output]") {
  for (const std::string command : {"train --data ", "bench train --data "}) {
    refuse(command + "digits --model unet",
           "the data set digits has labels: expected --data shapes");
    refuse(command + "shapes --model mlp", "--model mlp answers with a class");
  }
}

TEST_CASE("the same command gives the same bits, and any split the same weights", "[cli][full]") {
  const Folder folder;
  for (const std::string model : {"mlp-small", "cnn", "cnn-gn"}) {
    if (computes_slowly() && model != "mlp-small") {
      WARN(model << " is left out on the runner and under sanitizers");
      continue;
    }
    const auto train = [&](const std::string& batches, const std::string& file) {
      succeed("train --model " + model + narrow() + "--steps 5 --lr 1e-4 --eps 1e-2 " + batches +
              " --save " + (folder / file));
    };
    train("--micro-batch 64 --accum 1", "whole");
    train("--micro-batch 16 --accum 4", "parts");
    train("--micro-batch 16 --accum 4", "again");
    train("--micro-batch 24 --effective-batch 64", "uneven");
    train("--micro-batch 16 --accum 4 --strategy separate", "separate");
    REQUIRE(file_bytes(folder / "parts") == file_bytes(folder / "again"));
    // The gradients are below 1, and sums of a few hundred terms that each round by 2^-24: they are
    // off by at most 2e-5. One step moves a weight by at most lr / eps = 0.01 of that, and 5 steps
    // by 1e-6. The weights themselves have moved by 1e-4.
    for (const char* other : {"parts", "uneven", "separate"})
      REQUIRE(largest_difference(folder / "whole", folder / other) < 1e-6);
  }
}

TEST_CASE("weights go out and come back", "[cli]") {
  const Folder folder;
  for (const std::string model : {"mlp-small", "cnn-bn"}) {
    if (reduced() && model == "mlp-small") continue;
    const std::string options = " --model " + model + narrow();
    succeed("train" + options + "--steps 0 --save " + (folder / "initial"));
    succeed("train" + options + "--steps 3 --save " + (folder / "direct"));
    succeed("train" + options + "--steps 3 --init " + (folder / "initial") + " --save " +
            (folder / "loaded"));
    REQUIRE(file_bytes(folder / "direct") == file_bytes(folder / "loaded"));
    REQUIRE_THAT(succeed("eval" + options + "--init " + (folder / "direct") + " --json " +
                         (folder / "scores")),
                 ContainsSubstring("test accuracy"));
    const auto scores = nlohmann::json::parse(file_bytes(folder / "scores"));
    REQUIRE(scores["training"]["samples"] == (computes_slowly() ? 1'400 : 10'000));
    REQUIRE(scores["test"]["accuracy"].get<double>() ==
            Approx(scores["test"]["correct"].get<double>() / (computes_slowly() ? 0.4 : 20)));
  }
  const auto file = read_safetensors(folder / "direct");
  REQUIRE(file[0].first == "0.weight");
  REQUIRE(file[0].second.shape() == Shape{computes_slowly() ? 8 : 16, 1, 3, 3});
}

TEST_CASE("weights that do not fit are refused", "[output]") {
  const Folder folder;
  succeed("train --model mlp-small --steps 0 --save " + (folder / "w"));
  refuse("train --model mlp --init " + (folder / "w"),
         "--model is mlp, but they were trained with mlp-small");
  write_safetensors(folder / "nameless", read_safetensors(folder / "w"));
  refuse("train --model mlp --init " + (folder / "nameless"),
         "0.weight is f32 [256, 784], expected f32 [512, 784]");
  refuse("train --init " + (folder / "none"), "none");
  refuse("eval --model mlp-small", "eval needs weights");
  NamedTensors tensors = read_safetensors(folder / "w");
  tensors[0].second.span<float>()[5] = std::numeric_limits<float>::quiet_NaN();
  write_safetensors(folder / "nan", tensors);
  refuse("train --model mlp-small --init " + (folder / "nan"), "holds nan at element 5");
  std::ofstream(folder / "text") << "this is not safetensors";
  refuse("train --init " + (folder / "text"), "text");
}

TEST_CASE("batches that contradict each other or the data are refused", "[output]") {
  refuse("train --micro-batch 0", "--micro-batch is 0");
  refuse("train --micro-batch -3", "--micro-batch is -3");
  refuse("train --accum 0", "--accum is 0");
  refuse("train --effective-batch 0", "--effective-batch is 0");
  refuse("train --micro-batch 8 --accum 3 --effective-batch 32",
         "is 24, but --effective-batch is 32");
  refuse("train --micro-batch 1000000", "larger than the data");
  refuse("train --effective-batch 1000000", "larger than the data");
  // 16 times these numbers overflow: to 64 in 64 bits, and to a negative number.
  for (const std::string accum : {"1152921504606846980", "9223372036854775807"})
    refuse("train --accum " + accum, "--accum " + accum + " is larger than the data");
  refuse("train --micro-batch four", "four");
  refuse("bench memory --effective-batch 32 --ways fused,fast", "--ways has 'fast': expected some");
  refuse("bench memory --effective-batch 32 --ways pytorch --python false", "name an interpreter");
  refuse("bench memory --effective-batch 32 --report /nowhere/page.html", "/nowhere");
  refuse("train --width 0", "--width");
  refuse("train --width 5000", "a model's width is 5000");
  refuse("bench memory --effective-batch 32 --micro-batches 8,64",
         "expected 1 to the effective batch of 32");
}

TEST_CASE("other settings out of range are refused", "[output]") {
  refuse("train --lr -1", "learning rate -1");
  refuse("train --beta1 1", "beta1 is 1");
  refuse("train --eps 0", "eps is 0");
  refuse("train --clip-norm 0", "clip norm 0");
  refuse("train --loss-scale 0", "loss scale 0");
  // The step's type, float32, does not hold these numbers.
  refuse("train --loss-scale 1e-39", "loss scale 1e-39: expected from 2^-126");
  refuse("train --eps 1e-60", "eps is 1e-60");
  refuse("train --lr 1e39", "learning rate 1e+39");
  refuse("train --lr 1e-60", "learning rate 1e-60");
  refuse("train --clip-norm 1e-60", "clip norm 1e-60");
  refuse("train --dropout nan", "--dropout is nan: expected a number, 0 to 0.999");
  refuse("train --precision fp16 --loss-scale-backoff 1", "backs off by 1:");
  refuse("train --checkpoint-dir none --keep-last 0",
         "--keep-last is 0: expected a whole number above 0");
  refuse("train --epochs -1", "--epochs is -1: expected a whole number, 0 to 1000000000");
  refuse("train --epochs 9223372036854775807", "--epochs");
  refuse("train --loss-scale often", "--loss-scale");
  refuse("train --precision fp8", "--precision");
  refuse("train --precision fp16 --strategy moments", "expected a constant loss scale");
  refuse("train --on-overflow drop-micro-batch", "expected strategy separate");
  if (test_device() == Device::cpu) {
    refuse("train --precision tf32", "expected fp32, bf16 or fp16, or --device cuda");
    refuse("train --precision fp64 --strategy bf16-sum",
           "strategy bf16-sum rounds the sum of gradients to 16 bits");
  } else {
    refuse("train --precision fp64", "precision fp64 runs on the cpu, but this run is on cuda");
  }
  refuse("train --dropout 1.5", "--dropout");
  refuse("train --memory-limit lots", "'lots' is not a size");
  refuse("train --optimizer sgd --nesterov", "nesterov needs a momentum");
}

TEST_CASE("bad data is named", "[output]") {
  const auto with = [](const std::string& file, const Bytes& bytes, const std::string& part) {
    const Folder folder;
    write_idx_data(folder);
    write(folder / file, bytes);
    refuse("train --micro-batch 4 --data " + folder.path().string(), part);
  };
  const std::string images = "train-images-idx3-ubyte", labels = "train-labels-idx1-ubyte";
  Bytes bytes = idx_images(40);
  bytes.resize(1000);
  with(images, bytes, images);
  bytes = idx_images(40);
  bytes[2] = 9;
  with(images, bytes, images);
  with(labels, idx_labels(39), "39");
  bytes = idx_images(40);
  bytes.push_back(0);
  with(images, bytes, images);
  with(images, {}, images);
  with(images, {0x1f, 0x8b, 8, 0, 1, 2, 3}, images);
  refuse("train --data /nowhere/at/all", "/nowhere/at/all");
  refuse("train --data mnist --data-dir /nowhere", "scripts/fetch_mnist.sh to download it");

  const Folder folder;
  write_idx_data(folder);
  succeed("train --micro-batch 4 --data " + folder.path().string());
  fs::remove(folder / images);
  refuse("train --data " + folder.path().string(), images);
}

TEST_CASE("a failed save leaves nothing half-written", "[output]") {
  const Folder folder;
  const std::string saved = folder / "weights.safetensors";
  succeed("train --model mlp-small --steps 0 --save " + saved);
  const std::string before = file_bytes(saved);
  // A file size limit stands in for a full disk: write() fails in the middle.
  const Output output =
      shell("trap '' XFSZ; ulimit -f 100; " + program_path +
            " train --model mlp-small --steps 1 --data " + few_digits().path().string() +
            " --save " + saved + device_arguments());
  INFO(output.text);
  REQUIRE(output.status == 1);
  REQUIRE_THAT(output.text, ContainsSubstring("weights.safetensors"));
  REQUIRE(file_bytes(saved) == before);
  REQUIRE(std::distance(fs::directory_iterator(folder.path()), {}) == 1);
  const Output early = accrue_run("train --steps 1 --save /nowhere/w.safetensors");
  REQUIRE(early.status == 1);
  REQUIRE_THAT(early.text, ContainsSubstring("/nowhere"));
  REQUIRE(early.text.find("samples/s") == std::string::npos);
  refuse("train --steps 1 --json /nowhere/log", "/nowhere/log");
}

TEST_CASE("an epoch is a pass over the data, whatever is skipped in it", "[cli][full]") {
  const Folder folder;
  write_idx_data(folder);
  // An epoch has five windows of 8 images. The large loss scale makes the program skip the first.
  const std::string options =
      "train --model mlp-small --precision fp16 --loss-scale-init 1e6 "
      "--micro-batch 4 --effective-batch 8 --data " +
      folder.path().string() + " --json " + (folder / "log");
  succeed(options + " --epochs 1");
  const auto lines = json_steps(folder / "log");
  REQUIRE(lines.size() == 5);
  REQUIRE(lines[0]["skipped"] == true);
  REQUIRE(lines[4]["skipped"] == false);
  REQUIRE(lines[4]["epoch"] == 1);
  // --steps, on the other hand, counts the steps that were taken.
  succeed(options + " --epochs 3 --steps 6");
  REQUIRE(json_steps(folder / "log").back()["step"] == 6);
  REQUIRE(json_steps(folder / "log").back()["epoch"] == 2);
}

TEST_CASE("BatchNorm with accumulation warns with both numbers", "[cli][full]") {
  const std::string warned =
      succeed("train --model cnn-bn" + narrow() + "--steps 1 --micro-batch 8 --accum 4");
  REQUIRE_THAT(warned,
               ContainsSubstring("micro-batch of 8 samples, not over the effective batch of 32"));
  REQUIRE_THAT(warned, ContainsSubstring("cnn-gn"));
  const std::string silent =
      succeed("train --model cnn-bn" + narrow() + "--steps 1 --micro-batch 8 --accum 1");
  REQUIRE(silent.find("warning") == std::string::npos);
}

TEST_CASE("an interrupt ends the run after a whole window", "[cli]") {
  const Folder folder;
  const std::string log = folder / "log";
  Child child(
      "train --model cnn" + narrow() + "--epochs 1000 --json " + log + " --save " + (folder / "w"),
      folder / "text");
  child.wait_until([&] { return fs::exists(log) && fs::file_size(log) > 0; });
  child.send(SIGINT);
  REQUIRE(child.wait() == 0);
  const std::string text = child.text();
  INFO(text);
  REQUIRE_THAT(text, ContainsSubstring("interrupted: stopped after a whole window"));
  REQUIRE_THAT(text, ContainsSubstring("test accuracy"));
  REQUIRE(fs::exists(folder / "w"));
  for (const auto& line : json_steps(folder / "log")) REQUIRE(line["samples"] >= 1);
}

TEST_CASE("bench reports and writes", "[cli]") {
  const Folder folder;
  const std::string text = succeed("bench train --model mlp-small" + narrow() +
                                   "--seconds 0.3 --profile --json " + (folder / "train"));
  for (const char* part :
       {"samples/s", "where the time went", "optimizer_step", "a profiled window"})
    REQUIRE_THAT(text, ContainsSubstring(part));
  const auto figures = nlohmann::json::parse(file_bytes(folder / "train"));
  REQUIRE(figures["samples_per_s"].get<double>() > 0);
  REQUIRE(figures["profile"]["windows"].get<int64_t>() >= 1);
  REQUIRE(figures["profile"]["rows"].size() > 10);
  if (test_device() != Device::cpu) return;
  // Without a GPU a roofline is computed, and nothing is measured.
  REQUIRE_THAT(succeed("bench train --model mlp-small" + narrow() + "--roofline --json " +
                       (folder / "roofline")),
               ContainsSubstring("an H200 at 4.8 TB/s and 67 TFLOP/s takes at least"));
  const auto least = nlohmann::json::parse(file_bytes(folder / "roofline"));
  REQUIRE(least["roofline"]["window_least_us"].get<double>() > 0);
  REQUIRE(!least.contains("samples_per_s"));
}

TEST_CASE("bench kernels climbs every rung", "[cli]") {
  const Folder folder;
  using Layouts = std::vector<std::string>;
  for (const std::string& layout :
       on_runner() ? Layouts{"--size 64KiB"} : Layouts{"--size 1MiB", "--model mlp-small"}) {
    const std::string text =
        succeed("bench kernels " + layout + " --seconds 0.1 --json " + (folder / "kernels"));
    const auto figures = nlohmann::json::parse(file_bytes(folder / "kernels"));
    std::map<std::string, int> rungs;
    for (const auto& rung : figures["rungs"]) {
      INFO(rung.dump());
      REQUIRE(rung["ok"] == true);
      REQUIRE(rung["bytes"].get<double>() >= 4 * figures["parameters"].get<double>() / 1.01);
      REQUIRE_THAT(text, ContainsSubstring(rung["rung"].get<std::string>()));
      ++rungs[rung["ladder"]];
    }
    REQUIRE(rungs == std::map<std::string, int>{{"copy", 1},
                                                {"accumulate", 8},
                                                {"loss scale", 2},
                                                {"norm", 2},
                                                {"adam", 4},
                                                {"sgd", 2}});
  }
  refuse("bench kernels --size 1MiB --model mlp", "excludes");
  refuse("bench kernels --size 2", "an array of 2 bytes holds no float32");
}

TEST_CASE("lion trains with its own beta2 and half of Adam's moments", "[cli][full]") {
  const Folder folder;
  const std::string run = "train --model mlp-small --steps 3 --lr 1e-4 --optimizer lion --save ";
  const std::string text = succeed(run + (folder / "w"));
  REQUIRE_THAT(text, ContainsSubstring("predicted to the byte"));
  succeed(run + (folder / "same") + " --beta2 0.99");
  succeed(run + (folder / "other") + " --beta2 0.5");
  REQUIRE(file_bytes(folder / "w") == file_bytes(folder / "same"));
  REQUIRE(file_bytes(folder / "w") != file_bytes(folder / "other"));
  refuse(run + (folder / "none") + " --strategy moments", "expected adam or adamw");
  const auto moments = [&](const std::string& optimizer) {
    succeed("plan --model mlp-small --memory 1GiB --strategy fused --optimizer " + optimizer +
            " --json " + (folder / "plan.json"));
    const auto plan = nlohmann::json::parse(file_bytes(folder / "plan.json"));
    return plan["alternatives"][0]["peak_by_category"]["optimizer"].get<int64_t>();
  };
  // 64 bytes are for the count of steps.
  REQUIRE(moments("adam") - 64 == 2 * (moments("lion") - 64));
}

}  // namespace accrue::test
