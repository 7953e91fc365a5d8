// Networks in ONNX files as models of the program. The files are exports of its own networks, so
// what they learn is known.

#include <set>

#include "core/inside.h"
#include "data/mapped_file.h"
#include "layers/graph.h"
#include "layers/layers.h"
#include "onnx/writer/network_file.h"
#include "tests/support/cli.h"

namespace accrue::test {
namespace {

// A network that a few steps have trained, as weights and as an ONNX file.
struct ExportedNetwork : Folder {
  ExportedNetwork(const std::string& name, const std::string& data) : trained_on(data) {
    succeed("train " + name + data + " --steps 2 --micro-batch 8 --accum 1 --save " + weights);
    succeed("export --weights " + weights + " --out " + file);
  }
  const std::string trained_on, weights = *this / "w.safetensors", file = *this / "net.onnx";
  std::string model() const { return " --model " + file + trained_on; }
};

const ExportedNetwork& small_cnn() {
  static const ExportedNetwork network("--model cnn --width 0.25",
                                       " --data " + few_digits().path().string());
  return network;
}

std::vector<double> losses_of(const std::string& arguments, int steps = 3) {
  const Folder folder;
  const std::string log = folder / "log";
  succeed("train" + arguments + " --effective-batch 8 --json " + log + " --steps " +
          std::to_string(steps));
  std::vector<double> losses;
  for (const auto& step : json_steps(log)) losses.push_back(step["loss"].get<double>());
  return losses;
}

void check_equal(const std::vector<double>& a, const std::vector<double>& b, double within) {
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) REQUIRE(a[i] == Approx(b[i]).epsilon(within));
}

// A network of images with these classes, whose last op is this one.
std::string network_that_ends_with(const std::string& op, int64_t classes) {
  Graph net;
  const Graph::Value x = net.input("images");
  Graph::Value y = net.call(std::make_unique<Flatten>(), x);
  y = net.call(std::make_unique<Linear>(784, classes), y, "fc");
  if (op == "softmax") y = net.call(op, {y}, {{"dim", int64_t{1}}});
  else if (!op.empty()) y = net.call(op, {y});
  net.output(y, "answers");
  const Parameters parameters = place(net, DType::f32, Device::cpu, 1);
  return onnx_of(net, {{"images", Shape{1, 28, 28}}}, {"answers"}, parameters);
}

// 20 images of 16 x 16 pixels with a square each, and the squares' masks.
void write_drawings(const Folder& folder) {
  constexpr int64_t side = 16, square = 6;
  for (const char* name : {"images", "masks"}) fs::create_directories(folder / name);
  for (int64_t i = 0; i < 20; ++i) {
    GrayImage image(side, side), mask(side, side);
    for (int64_t y = 0; y < side; ++y)
      for (int64_t x = 0; x < side; ++x) {
        const bool is_inside = y >= i / 2 && y < i / 2 + square && x >= i / 3 && x < i / 3 + square;
        mask.at(y, x) = is_inside ? 255 : 0;
        image.at(y, x) = static_cast<uint8_t>((is_inside ? 150 : 40) + (x * 7 + y * 13 + i) % 50);
      }
    write_png(folder / fmt::format("images/{}.png", i), image);
    write_png(folder / fmt::format("masks/{}.png", i), mask);
  }
}

}  // namespace

TEST_CASE("an ONNX file of a network of images learns as the network does", "[cli]") {
  const ExportedNetwork& network = small_cnn();
  const std::string own = " --init " + network.weights + network.trained_on;
  for (const std::string& options :
       {std::string(" --micro-batch 8"), std::string(" --micro-batch 3"),
        std::string(" --micro-batch 4 --recompute sqrt")})
    check_equal(losses_of(own + options), losses_of(network.model() + options), 1e-5);
  if (test_device() == Device::cpu) {  // float64 is for the cpu
    const std::string exact = " --micro-batch 3 --precision fp64";
    check_equal(losses_of(own + exact), losses_of(network.model() + exact), 1e-10);
  }
  REQUIRE_THAT(succeed("train" + network.model() + " --steps 1 --micro-batch 4"),
               ContainsSubstring("predicted to the byte"));
}

TEST_CASE("weights of an ONNX file say which file they belong to", "[cli]") {
  const ExportedNetwork& network = small_cnn();
  const Folder folder;
  const std::string weights = folder / "tuned.safetensors", tuned = folder / "tuned.onnx";
  const std::string train = "train" + network.model() + " --steps 2 --micro-batch 8 --accum 1";
  succeed(train + " --save " + weights);
  succeed(train + " --save " + tuned);
  const Metadata said = read_safetensors_metadata(weights);
  REQUIRE(said.at("model") == network.file);
  REQUIRE(said.contains("model-checksum"));
  const std::string exported = folder / "exported.onnx";
  succeed("export --weights " + weights + " --out " + exported);
  REQUIRE(file_bytes(exported) == file_bytes(tuned));

  const std::string eval = "eval --split test" + network.trained_on;
  const std::string score = succeed(eval + " --init " + weights);
  REQUIRE(succeed(eval + " --model " + tuned) == score);
  fs::rename(network.file, network.file + ".away");
  refuse(eval + " --init " + weights, "which is not there: expected --model FILE.onnx");
  refuse(eval + " --model " + tuned + " --init " + weights, "of another file than");
  fs::copy(network.file + ".away", folder / "net.onnx");
  REQUIRE(succeed(eval + " --init " + weights) == score);  // beside the weights
  fs::rename(folder / "net.onnx", folder / "moved.onnx");
  REQUIRE(succeed(eval + " --init " + weights + " --model " + (folder / "moved.onnx")) == score);
  fs::rename(network.file + ".away", network.file);

  refuse("train" + network.model() + " --steps 1 --save " + network.file, "which is read");
  refuse("export --bytes --weights " + weights + " --out " + exported, "neither --bytes nor");
}

TEST_CASE("the training of an ONNX file resumes, unless the file is another", "[cli]") {
  const ExportedNetwork& network = small_cnn();
  const Folder folder;
  const std::string once = folder / "once.safetensors", twice = folder / "twice.safetensors";
  const std::string copy = folder / "copy.onnx",
                    checkpoints = " --checkpoint-dir " + (folder / "c");
  fs::copy(network.file, copy);
  const std::string rest = network.trained_on + " --micro-batch 4 --effective-batch 8";
  succeed("train --model " + network.file + rest + " --steps 4 --save " + once);
  succeed("train --model " + network.file + rest + " --steps 2" + checkpoints);
  const std::string resume = rest + " --steps 4 --resume --save " + twice + checkpoints;
  succeed("train --model " + copy + resume);  // the content is the same
  REQUIRE(largest_difference(once, twice) == 0);
  const std::string other = folder / "other.onnx";
  std::ofstream(other, std::ios::binary) << network_that_ends_with("", 10);
  refuse("train --model " + other + resume, "holds weights of another file than");
}

TEST_CASE("an ONNX file of masks and one of a table learn as their networks do", "[cli]") {
  const Folder shapes;
  write_drawings(shapes);
  const ExportedNetwork unet("--model unet --depth 2 --width 0.25",
                             " --data " + shapes.path().string());
  const std::string options = " --micro-batch 4";
  check_equal(losses_of(" --init " + unet.weights + unet.trained_on + options, 2),
              losses_of(unet.model() + options, 2), 1e-5);

  const Folder folder;
  std::string rows = "a,b,kind,size\n";
  for (int n = 0; n < 60; ++n)
    rows += fmt::format("{:.3f},{:.3f},{},{:.3f}\n", std::sin(n * 1.7), std::cos(n * 2.9),
                        n % 3 == 0 ? "large" : "small", std::sin(n * 0.7));
  folder.TemporaryDirectory::write("t.csv", rows);
  const std::string data = " --data " + (folder / "t.csv");
  for (const std::string& target :
       {std::string(" --target kind --leave-out size"),
        std::string(" --target size --leave-out kind --loss smooth-l1")}) {
    const ExportedNetwork table("--model table-mlp" + target, data);
    check_equal(losses_of(" --init " + table.weights + data + options),
                losses_of(table.model() + target + options), 1e-5);
    const std::string tuned = folder / "tuned.safetensors", out = folder / "out";
    succeed("train" + table.model() + target + " --steps 1 --micro-batch 8 --save " + tuned);
    succeed("eval --init " + tuned + data);
    succeed("predict --force --weights " + tuned + data + " --out " + out);
    REQUIRE(file_bytes(out + "/predictions.csv").starts_with("sample,"));
  }
}

TEST_CASE("what an ONNX file answers must fit the data", "[cli]") {
  const Folder folder;
  const auto write_network = [&](const std::string& op, int64_t classes) {
    const std::string path = folder / (op + std::to_string(classes) + ".onnx");
    std::ofstream(path, std::ios::binary) << network_that_ends_with(op, classes);
    return path;
  };
  const std::string data = " --micro-batch 8 --data " + few_digits().path().string();
  const std::string logits = write_network("", 10), softmax = write_network("softmax", 10);
  check_equal(losses_of(" --model " + logits + data), losses_of(" --model " + softmax + data),
              1e-7);
  REQUIRE_THAT(succeed("train --steps 1 --model " + softmax + data),
               ContainsSubstring("'answers' is a Softmax"));
  const auto refuse_train = [&](const std::string& options, const std::string& part) {
    refuse("train --steps 1" + data + " --model " + options, part);
  };
  refuse_train(write_network("sigmoid", 10), "expected a file whose output is logits");
  refuse_train(write_network("", 3), "has 3 numbers, but");
  refuse_train(logits + " --loss mse", "expected cross-entropy");
  refuse_train(logits + " --output other", "expected --output and one of them, not other");
  refuse_train(logits + " --train nothing", "'nothing' should be trained");
  refuse_train(logits + " --freeze nothing", "to freeze are called 'nothing'");
  refuse_train(logits + " --width 2", "--width has no effect");
  refuse("train --model " + logits + " --data shapes", "has masks");
  refuse("train --model " + logits + " --data moons", "the input 'images' is");
  refuse("train --model mlp --output y --data " + few_digits().path().string(),
         "expected --model *.onnx");
}

TEST_CASE("what is no ONNX file is refused by its name", "[cli]") {
  const Folder folder;
  folder.TemporaryDirectory::write("text.onnx", "this is no network");
  folder.TemporaryDirectory::write("empty.onnx", "");
  fs::create_directory(folder / "folder.onnx");
  for (const std::string name : {"text.onnx", "empty.onnx", "folder.onnx", "none.onnx"})
    for (const std::string command : {"train --model ", "plan --memory 1GiB --model ", "info "})
      refuse(command + (folder / name), name);
  REQUIRE(fs::exists(folder / "text.onnx"));
  const std::string verify = "train --steps 1 --micro-batch 8 --verify" + small_cnn().model();
  if (shell("python3 -c 'import onnxruntime'").status == 0)
    REQUIRE_THAT(succeed(verify), ContainsSubstring("differs from onnxruntime's by"));
  else refuse(verify, "python3 -m pip install onnxruntime");
  const std::string facts = succeed("info " + small_cnn().file);
  REQUIRE_THAT(facts, ContainsSubstring("input: 'images'"));
  REQUIRE_THAT(facts, ContainsSubstring("output: 'logits'"));
  REQUIRE_THAT(succeed("plan --memory 1GiB --effective-batch 16" + small_cnn().model()),
               ContainsSubstring("accrue train --model " + small_cnn().file));
}

}  // namespace accrue::test
