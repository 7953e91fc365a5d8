// The program as a user meets it: its results, its files, and its errors.

#include <sys/wait.h>

#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/memory.h"
#include "data/safetensors.h"
#include "tests/catch.h"
#include "tests/device.h"
#include "tests/files.h"

namespace accrue::test {
namespace {

namespace fs = std::filesystem;

struct Output {
  int status;
  std::string text;  // stdout and stderr
};

Output shell(const std::string& command) {
  std::FILE* pipe = popen(("{ " + command + "; } 2>&1").c_str(), "r");
  REQUIRE(pipe != nullptr);
  Output output;
  std::array<char, 4096> buffer;
  while (const size_t n = fread(buffer.data(), 1, buffer.size(), pipe))
    output.text.append(buffer.data(), n);
  const int status = pclose(pipe);
  output.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return output;
}

// For the subcommands that compute.
std::string device_arguments() { return fmt::format(" --device {} ", name(test_device())); }

Output accrue_run(const std::string& arguments) {
  std::string command = std::string(ACCRUE_PROGRAM) + " " + arguments;
  for (const char* computes : {"train", "eval", "bench train", "bench memory", "bench kernels"})
    if (arguments.starts_with(computes)) command += device_arguments();
  return shell(command);
}

std::string succeed(const std::string& arguments) {
  const Output output = accrue_run(arguments);
  INFO(arguments << "\n" << output.text);
  REQUIRE(output.status == 0);
  return output.text;
}

// Fails with one clear error that names `part`.
void refuse(const std::string& arguments, const std::string& part) {
  const Output output = accrue_run(arguments);
  INFO(arguments << "\n" << output.text);
  REQUIRE(output.status != 0);
  REQUIRE(output.status < 128);
  REQUIRE_THAT(output.text, ContainsSubstring(part));
}

struct Folder : TemporaryDirectory {
  std::string operator/(const std::string& name) const { return (path() / name).string(); }
};

using Bytes = std::vector<unsigned char>;

void put(Bytes& bytes, uint32_t value) {
  for (int shift : {24, 16, 8, 0}) bytes.push_back(static_cast<unsigned char>(value >> shift));
}

void write(const std::string& path, const Bytes& bytes) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

Bytes idx_images(uint32_t count) {
  Bytes bytes;
  for (const uint32_t word : {0x803u, count, 28u, 28u}) put(bytes, word);
  for (uint32_t i = 0; i < count * 784; ++i)
    bytes.push_back(static_cast<unsigned char>(i * 7919 >> 3));
  return bytes;
}

Bytes idx_labels(uint32_t count) {
  Bytes bytes;
  for (const uint32_t word : {0x801u, count}) put(bytes, word);
  for (uint32_t i = 0; i < count; ++i) bytes.push_back(static_cast<unsigned char>(i % 10));
  return bytes;
}

// A small data set in MNIST's format: 40 training and 10 test images.
void write_idx_data(const Folder& folder) {
  write(folder / "train-images-idx3-ubyte", idx_images(40));
  write(folder / "train-labels-idx1-ubyte", idx_labels(40));
  write(folder / "t10k-images-idx3-ubyte", idx_images(10));
  write(folder / "t10k-labels-idx1-ubyte", idx_labels(10));
}

std::vector<nlohmann::json> json_lines(const std::string& path) {
  std::vector<nlohmann::json> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

std::string file_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// The largest difference of two weight files.
double largest_difference(const std::string& a, const std::string& b) {
  const NamedTensors x = read_safetensors(a), y = read_safetensors(b);
  REQUIRE(x.size() == y.size());
  double largest = 0;
  for (size_t t = 0; t < x.size(); ++t) {
    const auto u = x[t].second.span<float>(), v = y[t].second.span<float>();
    for (size_t i = 0; i < u.size(); ++i)
      largest = std::max(largest, std::abs(double(u[i]) - double(v[i])));
  }
  return largest;
}

}  // namespace

TEST_CASE("help, version and unknown words", "[cli]") {
  for (const char* command :
       {"", "train", "eval", "info", "bench", "bench train", "bench memory", "bench kernels"})
    REQUIRE_THAT(succeed(std::string(command) + " --help"), ContainsSubstring("Usage"));
  succeed("--version");
  refuse("train --micro-bacth 4", "did you mean --micro-batch instead of --micro-bacth");
  refuse("trian", "did you mean train instead of trian");
  refuse("train --model resnet", "resnet");
  refuse("bench memory --effective-batches 4", "did you mean --effective-batch");
  refuse("", "subcommand is required");
}

TEST_CASE("info describes every model", "[cli]") {
  REQUIRE_THAT(succeed("info --model mlp"), ContainsSubstring("567434 parameters"));
  REQUIRE_THAT(succeed("info --model mlp-small"), ContainsSubstring("203530 parameters"));
  REQUIRE_THAT(succeed("info --model cnn"), ContainsSubstring("0.weight"));
  REQUIRE_THAT(succeed("info --model cnn-gn"), ContainsSubstring("group norm"));
  REQUIRE_THAT(succeed("info --model cnn-bn"), ContainsSubstring("running_mean"));
}

TEST_CASE("train logs every step and learns", "[cli]") {
  const Folder folder;
  const std::string text = succeed(
      "train --model mlp-small --steps 60 --log-every 20 --micro-batch 16 --accum 4 --json " +
      (folder / "log"));
  REQUIRE_THAT(text, ContainsSubstring("[Epoch 1][Step 40] loss "));
  REQUIRE_THAT(text, ContainsSubstring("eff. batch 64 (16 x 4)"));
  REQUIRE_THAT(text, ContainsSubstring("test accuracy"));
  const auto lines = json_lines(folder / "log");
  REQUIRE(lines.size() == 60);
  for (const char* key : {"epoch", "step", "micro_batches", "samples", "loss", "lr", "grad_norm",
                          "samples_per_s", "peak_bytes"})
    REQUIRE(lines[0].contains(key));
  REQUIRE(lines[9]["step"] == 10);
  REQUIRE(lines[9]["micro_batches"] == 4);
  REQUIRE(lines[9]["samples"] == 64);
  REQUIRE(lines[59]["loss"].get<double>() < 0.7 * lines[0]["loss"].get<double>());
}

TEST_CASE("the same command gives the same bits, and any split the same weights", "[cli]") {
  const Folder folder;
  for (const std::string model : {"mlp-small", "cnn", "cnn-gn"}) {
    if (on_runner() && model == "cnn-gn") continue;  // a minute there
    const auto train = [&](const std::string& batches, const std::string& file) {
      succeed("train --model " + model + " --steps 5 --lr 1e-4 --eps 1e-2 " + batches + " --save " +
              (folder / file));
    };
    train("--micro-batch 64 --accum 1", "whole");
    train("--micro-batch 16 --accum 4", "parts");
    train("--micro-batch 16 --accum 4", "again");
    train("--micro-batch 24 --effective-batch 64", "uneven");
    train("--micro-batch 16 --accum 4 --strategy separate", "separate");
    REQUIRE(file_bytes(folder / "parts") == file_bytes(folder / "again"));
    // Gradients below 1 are sums of a few hundred terms, each rounded by 2^-24: off by 2e-5 at
    // most. A step moves a weight by at most lr / eps = 0.01 of that, 5 steps by 1e-6; the weights
    // themselves moved by 1e-4.
    for (const char* other : {"parts", "uneven", "separate"})
      REQUIRE(largest_difference(folder / "whole", folder / other) < 1e-6);
  }
}

TEST_CASE("the prediction on meta is the measurement, for every model and K", "[cli][memory]") {
  const Folder folder;
  for (const std::string model : {"mlp", "mlp-small", "cnn", "cnn-gn", "cnn-bn"}) {
    std::string first;
    for (const int K : {1, 2, 8, 64}) {
      if (on_runner() && K > 2) continue;
      const std::string text =
          succeed("train --model " + model + " --micro-batch 8 --steps 2 --accum " +
                  std::to_string(K) + " --epochs 2 --json " + (folder / "log"));
      const auto peak = json_lines(folder / "log").back()["peak_bytes"];
      INFO(model << " K " << K << " " << peak.dump() << "\n" << text);
      // The same bytes for every K.
      if (first.empty()) first = peak.dump();
      REQUIRE(peak.dump() == first);
      // And the table's prediction, in which text rounds to 0.1 of a unit.
      REQUIRE_THAT(text, ContainsSubstring("predicted to the byte"));
    }
  }
}

TEST_CASE("weights go out and come back", "[cli]") {
  const Folder folder;
  for (const std::string model : {"mlp-small", "cnn-bn"}) {
    const std::string options = " --model " + model + " ";
    succeed("train" + options + "--steps 0 --save " + (folder / "initial"));
    succeed("train" + options + "--steps 3 --save " + (folder / "direct"));
    succeed("train" + options + "--steps 3 --init " + (folder / "initial") + " --save " +
            (folder / "loaded"));
    REQUIRE(file_bytes(folder / "direct") == file_bytes(folder / "loaded"));
    REQUIRE_THAT(succeed("eval" + options + "--init " + (folder / "direct")),
                 ContainsSubstring("test accuracy"));
  }
  const auto file = read_safetensors(folder / "direct");
  REQUIRE(file[0].first == "0.weight");
  REQUIRE(file[0].second.shape() == Shape{16, 1, 3, 3});
}

TEST_CASE("weights that do not fit are refused", "[cli]") {
  const Folder folder;
  succeed("train --model mlp-small --steps 0 --save " + (folder / "w"));
  refuse("train --model mlp --init " + (folder / "w"),
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

TEST_CASE("batches that contradict each other or the data are refused", "[cli]") {
  refuse("train --micro-batch 0", "--micro-batch is 0");
  refuse("train --micro-batch -3", "--micro-batch is -3");
  refuse("train --accum 0", "--accum is 0");
  refuse("train --effective-batch 0", "--effective-batch is 0");
  refuse("train --micro-batch 8 --accum 3 --effective-batch 32",
         "is 24, but --effective-batch is 32");
  refuse("train --micro-batch 1000000", "larger than the data");
  refuse("train --effective-batch 1000000", "larger than the data");
  refuse("train --micro-batch four", "four");
  refuse("bench memory --effective-batch 32 --micro-batches 8,64",
         "expected 1 to the effective batch of 32");
}

TEST_CASE("other settings out of range are refused", "[cli]") {
  refuse("train --lr -1", "learning rate -1");
  refuse("train --beta1 1", "beta1 is 1");
  refuse("train --eps 0", "eps is 0");
  refuse("train --clip-norm 0", "clip norm 0");
  refuse("train --loss-scale 0", "loss scale 0");
  refuse("train --dropout 1.5", "--dropout");
  refuse("train --memory-limit lots", "'lots' is not a size");
  refuse("train --optimizer sgd --nesterov", "nesterov needs a momentum");
}

TEST_CASE("bad data is named", "[cli]") {
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
  bytes = idx_labels(40);
  bytes[8 + 17] = 10;
  with(labels, bytes, "found 10 at offset 25");
  bytes = idx_images(40);
  bytes.push_back(0);
  with(images, bytes, images);
  with(images, {}, images);
  with(images, {0x1f, 0x8b, 8, 0, 1, 2, 3}, images);
  refuse("train --data /nowhere/at/all", "/nowhere/at/all");

  const Folder folder;
  write_idx_data(folder);
  succeed("train --micro-batch 4 --data " + folder.path().string());
  fs::remove(folder / images);
  refuse("train --data " + folder.path().string(), images);
}

TEST_CASE("a limit is kept and an excess explained", "[cli][memory]") {
  succeed("train --model mlp-small --steps 1 --memory-limit 1GiB");
  refuse("train --model mlp --steps 1 --memory-limit 12MB --micro-batch 16",
         "out of memory on " + std::string(name(test_device())));
}

TEST_CASE("a failed save leaves nothing half-written", "[cli]") {
  const Folder folder;
  const std::string saved = folder / "weights.safetensors";
  succeed("train --model mlp-small --steps 0 --save " + saved);
  const std::string before = file_bytes(saved);
  // A file size limit stands in for a full disk: write() fails in the middle.
  const Output output =
      shell("trap '' XFSZ; ulimit -f 100; " + std::string(ACCRUE_PROGRAM) +
            " train --model mlp-small --steps 1 --save " + saved + device_arguments());
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

TEST_CASE("BatchNorm with accumulation warns with both numbers", "[cli]") {
  const std::string warned = succeed("train --model cnn-bn --steps 1 --micro-batch 8 --accum 4");
  REQUIRE_THAT(warned,
               ContainsSubstring("micro-batch of 8 samples, not over the effective batch of 32"));
  REQUIRE_THAT(warned, ContainsSubstring("cnn-gn"));
  const std::string silent = succeed("train --model cnn-bn --steps 1 --micro-batch 8 --accum 1");
  REQUIRE(silent.find("warning") == std::string::npos);
}

TEST_CASE("an interrupt ends the run after a whole window", "[cli]") {
  const Folder folder;
  const Output output = shell("timeout --signal=INT 2 " + std::string(ACCRUE_PROGRAM) +
                              " train --model cnn --epochs 1000 --json " + (folder / "log") +
                              " --save " + (folder / "w") + device_arguments());
  INFO(output.text);
  REQUIRE_THAT(output.text, ContainsSubstring("interrupted: stopped after a whole window"));
  REQUIRE_THAT(output.text, ContainsSubstring("test accuracy"));
  REQUIRE(fs::exists(folder / "w"));
  for (const auto& line : json_lines(folder / "log")) REQUIRE(line["samples"] >= 1);
}

TEST_CASE("bench reports and writes", "[cli]") {
  const Folder folder;
  REQUIRE_THAT(succeed("bench train --model mlp-small --seconds 0.3 --json " + (folder / "train")),
               ContainsSubstring("samples/s"));
  REQUIRE(nlohmann::json::parse(file_bytes(folder / "train"))["samples_per_s"].get<double>() > 0);
  succeed(
      "bench memory --model mlp-small --effective-batch 32 --micro-batches 8,32 --steps 2 --csv " +
      (folder / "csv") + " --json " + (folder / "memory"));
  const auto rows = nlohmann::json::parse(file_bytes(folder / "memory"))["rows"];
  REQUIRE(rows.size() == 2);
  REQUIRE(rows[1]["peak_bytes"]["activations"] < rows[0]["peak_bytes"]["activations"]);
  REQUIRE(rows[1]["largest_weight_difference"].get<double>() < 1e-4);
  REQUIRE(rows[1]["peak_rss_bytes"].get<double>() > 1e6);
  REQUIRE(file_bytes(folder / "csv").starts_with("micro_batch,accum,parameters_bytes"));
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
                                                {"adam", 3},
                                                {"sgd", 2}});
  }
  refuse("bench kernels --size 1MiB --model mlp", "excludes");
  refuse("bench kernels --size 2", "an array of 2 bytes holds no float32");
}

}  // namespace accrue::test
