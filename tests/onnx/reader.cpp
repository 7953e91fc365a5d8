// Networks from ONNX files: files that accrue itself writes, and small ones that the tests make.
// The judges in python/tests/judges compare files of others.

#include "core/inside.h"
#include "core/random.h"
#include "kernels/losses.h"
#include "layers/layers.h"
#include "onnx/reader/network.h"
#include "onnx/writer/network_file.h"
#include "tests/onnx/onnx_bytes.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"

namespace accrue::test {
namespace {
namespace onnx_reader {

using Catch::Matchers::Contains;
using Value = Graph::Value;

struct Reading : TemporaryDirectory {
  OnnxNetwork network(const std::string& bytes, OnnxReading reading = {}) const {
    return OnnxNetwork(OnnxFile::read(write("net.onnx", bytes)), std::move(reading));
  }
  std::string error(const std::string& bytes, OnnxReading reading = {}) const {
    try {
      network(bytes, std::move(reading)).calls();
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }
};

Tensor numbers(const Shape& shape, uint64_t seed, DType dtype = DType::f64) {
  RandomStream stream(seed);
  const Tensor x = Tensor::empty(shape, dtype, Device::cpu, Category::data);
  dispatch_wide(dtype, [&]<class T>() {
    for (T& each : x.span<T>()) each = T(stream.normal());
  });
  return x;
}

// A model in float64 with the file's values.
struct Loaded {
  std::unique_ptr<Graph> model;
  Parameters parameters;

  explicit Loaded(const OnnxNetwork& network)
      : model(network.make()), parameters(place(*model, DType::f64, Device::cpu, 1)) {
    network.load(parameters);
  }
  std::vector<double> operator()(const Tensor& x, const Pass& pass = Pass::eval()) const {
    const Tensor y = model->run({x}, pass).front();
    return {y.span<double>().begin(), y.span<double>().end()};
  }
};

Pass pass_of(int64_t samples) {
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < samples; ++i) ids.push_back(int32_t(i));
  return {.samples = Tensor::from(ids, {samples})};
}

// The gradient of the mean of (y - 1)^2.
std::vector<double> gradient_of(const Graph& model, const Parameters& parameters, const Tensor& x) {
  parameters.zero_grad();
  const Tensor y = model.run({x}, pass_of(x.size(0))).front();
  backward(mse_loss(y, Tensor::full(y.shape(), 1, DType::f64, Device::cpu)));
  std::vector<double> all;
  for (const auto& entry : parameters.entries()) {
    const Tensor grad = entry.tensor.variable()->grad;
    all.insert(all.end(), grad.span<double>().begin(), grad.span<double>().end());
  }
  return all;
}

std::unique_ptr<Graph> small_network() {
  auto net = std::make_unique<Graph>();
  Value x = net->call(std::make_unique<Conv2d>(3, 4, 3, Conv2dShape{.padding = 1}), net->input("x"),
                      "stem");
  Value h = net->call("gelu", {net->call(std::make_unique<GroupNorm>(2, 4), x, "norm")});
  h = net->call(std::make_unique<Conv2d>(4, 4, 3, Conv2dShape{.stride = 1, .padding = 1}), h,
                "conv");
  x = net->call("add", {x, h});
  const Value gamma = net->parameter("gamma", {1}, Init::constant(0.5));
  x = net->call("mul", {net->call("max_pool2d", {x}, {{"kernel_size", 2}}), gamma});
  x = net->call("flatten", {x}, {{"start_dim", 1}});
  net->output(net->call(std::make_unique<Linear>(4 * 4 * 4, 5), x, "head"), "y");
  return net;
}

TEST_CASE("a file that accrue writes is read as the same network", "[onnx-reader]") {
  const auto net = small_network();
  const Parameters parameters = place(*net, DType::f32, Device::cpu, 3);
  const std::string bytes =
      onnx_of(*net, std::vector<InputSamples>{{"x", Shape{3, 8, 8}}}, {"y"}, parameters);
  const Reading reading;
  const OnnxNetwork network =
      reading.network(bytes, {.train = {"gamma", "norm.weight", "norm.bias"}});
  CHECK(network.inputs().front().sizes == std::vector<std::optional<int64_t>>{3, 8, 8});
  CHECK(network.output_shape("y") == Shape{5});
  CHECK(network.weights().size() == parameters.entries().size());

  const Loaded loaded(network);
  const auto ours = small_network();
  const Parameters wide = place(*ours, DType::f64, Device::cpu, 3);
  network.load(wide);  // its names are the same
  const Tensor x = numbers({3, 3, 8, 8}, 5);
  const Tensor y = ours->run({x}, Pass::eval()).front();
  const std::vector<double> answers = loaded(x);
  for (size_t i = 0; i < answers.size(); ++i)
    CHECK(answers[i] == Approx(y.span<double>()[i]).epsilon(1e-12));

  const auto a = gradient_of(*loaded.model, loaded.parameters, x);
  std::map<std::string, std::vector<double>> wanted;
  gradient_of(*ours, wide, x);
  for (const auto& entry : wide.entries()) {
    const auto grad = entry.tensor.variable()->grad.span<double>();
    wanted[entry.name].assign(grad.begin(), grad.end());
  }
  size_t at = 0;
  for (const auto& entry : loaded.parameters.entries())
    for (const double each : wanted.at(entry.name))
      CHECK(a.at(at++) == Approx(each).epsilon(1e-10).margin(1e-12));
}

TEST_CASE("a file comes back with other values, and all else as it was", "[onnx-reader]") {
  const Reading reading;
  OnnxBytes file;
  file.input("x", {"N", 2}).output("y", {"N", 2});
  file.tensor<float>("w", {2, 2}, {1, 2, 3, 4});
  file.raw("b", {2}, OnnxBytes::f16, std::string("\x00\x3c\x00\x40", 4));  // 1, 2
  file.tensor<float>("c", {1}, {3});
  file.node("Gemm", {"x", "w", "b"}, {"h"}, {{"transB", int64_t{1}}});
  file.node("Mul", {"h", "c"}, {"y"});
  const OnnxNetwork network = reading.network(file.file());
  CHECK(network.constants() == std::vector<std::string>{"c"});
  CHECK(network.notes().empty());
  const Loaded loaded(network);
  CHECK(loaded(Tensor::from<double>({1, 1}, {1, 2})) == std::vector<double>{12, 27});
  CHECK(network.with(loaded.parameters).size() == file.file().size());
  loaded.parameters.values().fill(0.5);
  const OnnxNetwork changed = reading.network(network.with(loaded.parameters));
  CHECK(Loaded(changed)(Tensor::from<double>({1, 1}, {1, 2})) == std::vector<double>{4.5, 4.5});
}

// y = x in the shape that nodes calculate from its own.
std::string reshaped_file(const OnnxBytes::Sizes& x) {
  OnnxBytes file;
  file.input("x", x).output("y", {x[0], 6});
  file.tensor<int64_t>("0", {}, {0}).tensor<int64_t>("axes", {1}, {0});
  file.tensor<int64_t>("rest", {1}, {-1}).tensor<float>("w", {6, 6}, std::vector<float>(36, 1));
  file.node("Shape", {"x"}, {"s"}).node("Gather", {"s", "0"}, {"n"});
  file.node("Unsqueeze", {"n", "axes"}, {"ns"});
  file.node("Concat", {"ns", "rest"}, {"t"}, {{"axis", int64_t{0}}});
  file.node("Reshape", {"x", "t"}, {"r"}).node("MatMul", {"r", "w"}, {"y"});
  return file.file();
}

TEST_CASE("sizes that a file calculates hold for any number of samples", "[onnx-reader]") {
  const Reading reading;
  for (const auto& first : {OnnxBytes::Sizes{"N", 2, 3}, OnnxBytes::Sizes{4, 2, 3}}) {
    const Loaded loaded(reading.network(reshaped_file(first)));
    CHECK(loaded(Tensor::full({1, 2, 3}, 1, DType::f64, Device::cpu)).size() == 6);
    CHECK(loaded(Tensor::full({7, 2, 3}, 1, DType::f64, Device::cpu)) ==
          std::vector<double>(42, 6));
  }
}

TEST_CASE("constant shapes begin with N where a file says a number", "[onnx-reader]") {
  const Reading reading;
  OnnxBytes file;
  file.input("x", {4, 2, 3}).output("y", {4, 1}).known("r", {4, 6});
  file.tensor<int64_t>("s", {2}, {4, -1}).tensor<float>("w", {6, 1}, {1, 1, 1, 1, 1, 1});
  file.node("Reshape", {"x", "s"}, {"r"}).node("MatMul", {"r", "w"}, {"y"});
  const Loaded loaded(reading.network(file.file()));
  CHECK(loaded(Tensor::full({5, 2, 3}, 1, DType::f64, Device::cpu)) == std::vector<double>(5, 6));
}

// PyTorch's nn.MultiheadAttention: heads lie beside the samples, behind the places.
TEST_CASE("samples stay apart in shapes in which a file says a multiple of its number",
          "[onnx-reader]") {
  const Reading reading;
  for (const int64_t samples : {1, 3})
    for (const bool has_rest : {false, true}) {
      OnnxBytes file;
      file.input("x", {samples, 5, 6}).output("y", {samples, 5, 6});
      file.tensor<int64_t>("heads", {3}, {5, has_rest ? -1 : samples * 2, 3});
      file.tensor<int64_t>("rows", {2}, {5 * samples, 6});
      file.tensor<int64_t>("places", {3}, {has_rest ? -1 : 5, samples, 6});
      const std::vector<std::pair<std::string, OnnxBytes::Attribute>> turned{
          {"perm", std::vector<int64_t>{1, 0, 2}}};
      file.node("Transpose", {"x"}, {"a"}, turned).node("Reshape", {"a", "heads"}, {"b"});
      file.node("Transpose", {"b"}, {"c"}, turned).node("Transpose", {"c"}, {"d"}, turned);
      file.node("Reshape", {"d", "rows"}, {"e"}).node("Reshape", {"e", "places"}, {"f"});
      file.node("Transpose", {"f"}, {"y"}, turned);
      const Loaded loaded(reading.network(file.file()));
      const Tensor x = numbers({4, 5, 6}, 1);
      CHECK(std::ranges::equal(loaded(x), x.span<double>()));
    }
}

// y = (concat(token, x) + places) w, where a file of 3 samples holds the token and the places
// thrice.
std::string token_file(const std::vector<float>& token) {
  OnnxBytes file;
  file.input("x", {3, 1, 2}).output("y", {3, 2, 2});
  file.tensor<float>("token", {3, 1, 2}, token).tensor<float>("w", {2, 2}, {1, 0, 0, 1});
  file.tensor<float>("places", {3, 2, 2}, {1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4});
  file.node("Concat", {"token", "x"}, {"c"}, {{"axis", int64_t{1}}});
  file.node("Add", {"c", "places"}, {"s"}).node("MatMul", {"s", "w"}, {"y"});
  return file.file();
}

TEST_CASE("constants that repeat for a file's samples hold for any number", "[onnx-reader]") {
  const Reading reading;
  const Loaded loaded(reading.network(token_file({5, 6, 5, 6, 5, 6})));
  const Tensor x = Tensor::from<double>({10, 20, 30, 40, 50, 60, 70, 80}, {4, 1, 2});
  const std::vector<double> y = loaded(x);
  REQUIRE(y.size() == 16);
  CHECK(std::vector(y.begin(), y.begin() + 8) == std::vector<double>{6, 8, 13, 24, 6, 8, 33, 44});
  CHECK_THAT(reading.error(token_file({5, 6, 5, 6, 5, 7})),
             Contains("Concat 'Concat_c'") && Contains("; the file is for 3 samples: "));
}

TEST_CASE("free sizes of a sample are given", "[onnx-reader]") {
  const Reading reading;
  const std::string bytes = reshaped_file({"N", "h", "w"});
  const OnnxNetwork open = reading.network(bytes);
  CHECK(open.inputs().front().sizes == std::vector<std::optional<int64_t>>(2));
  CHECK_THROWS_WITH(open.calls(), Contains("[N, h, w]") && Contains("sizes of a sample"));
  CHECK(reading.network(bytes, {.samples = {{"x", Shape{2, 3}}}}).output_shape("y") == Shape{6});
  CHECK_THAT(reading.error(bytes, {.samples = {{"x", Shape{2, 4}}}}),
             Contains("MatMul 'MatMul_y'"));
  CHECK_THAT(reading.error(bytes, {.samples = {{"z", Shape{2, 4}}}}), Contains("expected x"));
}

TEST_CASE("batch norm of a training graph learns by batches", "[onnx-reader]") {
  const Reading reading;
  const auto file_of = [](int64_t training) {
    OnnxBytes file;
    file.input("x", {"N", 2}).output("y", {"N", 2});
    for (const char* name : {"w", "v"}) file.tensor<float>(name, {2}, {1, 1});
    for (const char* name : {"b", "m"}) file.tensor<float>(name, {2}, {0, 0});
    const std::vector<std::string> outputs{"y", "m2", "v2"};
    file.node("BatchNormalization", {"x", "w", "b", "m", "v"},
              training ? outputs : std::vector<std::string>{"y"},
              {{"training_mode", training}, {"epsilon", 0.0f}});
    return file.file();
  };
  const Tensor x = Tensor::from<double>({1, 10, 3, 30}, {2, 2});
  const OnnxNetwork trained = reading.network(file_of(1)), fixed = reading.network(file_of(0));
  CHECK(Loaded(trained)(x, pass_of(2)) == std::vector<double>{-1, -1, 1, 1});
  CHECK(Loaded(fixed)(x, pass_of(2)) == std::vector<double>{1, 10, 3, 30});
  CHECK(trained.notes().empty());
  REQUIRE(fixed.notes().size() == 1);
  CHECK_THAT(fixed.notes().front(), Contains("Export it for training"));
  CHECK(trained.weights().at(2).is_buffer != trained.weights().at(0).is_buffer);
}

TEST_CASE("a weight keeps a shape that begins like the file's samples", "[onnx-reader]") {
  const Reading reading;
  OnnxBytes file;
  file.input("x", {1, 2}).output("y", {1, 2});
  file.tensor<float>("w", {4}, {1, 2, 3, 4});
  file.tensor<int64_t>("shape", {3}, {1, 2, 2}).tensor<int64_t>("flat", {2}, {2, 2});
  file.node("Reshape", {"w", "shape"}, {"a"}).node("Reshape", {"a", "flat"}, {"b"});
  file.node("MatMul", {"x", "b"}, {"y"});
  const OnnxNetwork network = reading.network(file.file());
  CHECK(Loaded(network)(Tensor::from<double>({1, 1, 2, 0}, {2, 2})) ==
        std::vector<double>{4, 6, 2, 4});
}

TEST_CASE("constants that may be weights are named", "[onnx-reader]") {
  const Reading reading;
  OnnxBytes file;
  file.input("x", {"N", 2}).output("y", {"N", 2});
  file.tensor<float>("w", {2, 2}, {1, 2, 3, 4}).tensor<float>("g", {2}, {1, 1});
  file.tensor<float>("v", {2, 2}, {1, 2, 3, 4});
  file.node("Mul", {"w", "g"}, {"product"}).node("Gemm", {"x", "product"}, {"h"});
  file.node("Gemm", {"h", "v"}, {"y"});
  const OnnxNetwork network = reading.network(file.file());
  REQUIRE(network.notes().size() == 1);
  CHECK_THAT(network.notes().front(), Contains("w, g"));
  CHECK(reading.network(file.file(), {.train = {"w", "g"}}).notes().empty());
}

TEST_CASE("masks that repeat for each sample follow from sizes", "[onnx-reader]") {
  // y = x + mask, a mask [N, 3] of -1 in front of the diagonal, calculated from the shape of x.
  OnnxBytes file;
  file.input("x", {"N", 3}).output("y", {"N", 3});
  file.tensor<float>("f", {1, 3}, {-1, 0, 2})
      .tensor<float>("i", {3, 3}, {1, 0, 0, 0, 1, 0, 0, 0, 1});
  file.node("Shape", {"x"}, {"s"}).node("Expand", {"f", "s"}, {"mask"});
  file.node("Add", {"x", "mask"}, {"h"}).node("MatMul", {"h", "i"}, {"y"});
  const Reading reading;
  const Loaded loaded(reading.network(file.file()));
  CHECK(loaded(Tensor::full({2, 3}, 1, DType::f64, Device::cpu)) ==
        std::vector<double>{0, 1, 3, 0, 1, 3});
}

// Errors

// A file of one node from x [N, 4] to y.
std::string file_with(const std::string& op, const std::vector<std::string>& inputs,
                      const std::vector<std::pair<std::string, OnnxBytes::Attribute>>& attributes,
                      const std::string& domain = "") {
  OnnxBytes file;
  file.input("x", {"N", 4})
      .output("y", {"N", 4})
      .tensor<float>("w", {4, 4}, std::vector<float>(16));
  file.node("MatMul", {"x", "w"}, {"h"}).node(op, inputs, {"y"}, attributes, domain);
  return file.file();
}

TEST_CASE("what is no network is refused by its node", "[onnx-reader]") {
  const Reading reading;
  const auto refused = [&](const std::string& bytes, const std::string& words) {
    CHECK_THAT(reading.error(bytes), Contains(words));
  };
  refused(file_with("MatMul", {"h"}, {}), "MatMul 'MatMul_y': its input 1 is left out");
  refused(file_with("If", {"h"}, {}), "If 'If_y': it is control flow");
  refused(file_with("QLinearMatMul", {"h"}, {}), "quantized");
  refused(file_with("Relu", {"h"}, {}, "com.microsoft"), "its domain is 'com.microsoft'");
  refused(file_with("Frobnicate", {"h"}, {}), "the operator is unknown");
  refused(file_with("Relu", {"h"}, {{"slope", 1.0f}}), "'slope' is not understood");
  refused(file_with("Softmax", {"h"}, {{"axis", int64_t{0}}}), "across samples");
  refused(file_with("Transpose", {"h"}, {}), "expected [N, 4], which the file says");
  refused(file_with("Softmax", {"h"}, {{"axis", std::string("last")}}), "another kind");
}

TEST_CASE("outputs that do not need a refused node are named", "[onnx-reader]") {
  const Reading reading;
  OnnxBytes file;
  file.input("x", {"N", 2}).output("label", {"N", 2}).output("y", {"N", 1});
  file.tensor<float>("w", {2, 1}, {1, 2});
  file.node("MatMul", {"x", "w"}, {"y"}).node("NoSuchOp", {"x"}, {"label"});
  CHECK_THAT(reading.error(file.file()),
             Contains("NoSuchOp 'NoSuchOp_label'") && Contains("; y can be had without this node"));
  CHECK(reading.network(file.file(), {.outputs = {"y"}}).calls() == 1);
}

TEST_CASE("broken files say what was expected", "[onnx-reader]") {
  const Reading reading;
  const std::string good = reshaped_file({"N", 2, 3});
  REQUIRE(reading.error(good) == "no error");
  for (const size_t size : {size_t{5}, good.size() / 2, good.size() - 1})
    CHECK_THAT(reading.error(good.substr(0, size)), Contains("is no ONNX file, or is cut off"));
  const auto refused = [&](const auto& change, const std::string& words) {
    OnnxBytes file;
    file.input("x", {"N", 2}).output("y", {"N", 2});
    file.tensor<float>("w", {2, 2}, {1, 2, 3, 4});
    change(file);
    CHECK_THAT(reading.error(file.file()), Contains(words));
  };
  const auto product = [](OnnxBytes& file) { file.node("MatMul", {"x", "w"}, {"y"}); };
  refused([&](OnnxBytes& f) { product(f), f.opset = 5; }, "opset is 5");
  refused([&](OnnxBytes& f) { product(f), f.opset = 30; }, "opset is 30");
  refused([&](OnnxBytes& f) { product(f), product(f); }, "'y' is given twice");
  refused([](OnnxBytes& f) { f.node("Relu", {"h"}, {"y"}); }, "nothing gives its input 'h'");
  refused([](OnnxBytes& f) { f.node("Relu", {"y"}, {"h"}).node("Relu", {"h"}, {"y"}); },
          "needs a result of its own");
  refused([](OnnxBytes&) {}, "nothing gives its output 'y'");
  refused([&](OnnxBytes& f) { product(f), f.raw("b", {3}, OnnxBytes::f32, "1234"); },
          "'b' has 4 bytes: expected 12");
  refused([&](OnnxBytes& f) { product(f), f.raw("b", {-3}, OnnxBytes::f32, ""); }, "size -3");
  refused([&](OnnxBytes& f) { product(f), f.raw("w", {1}, OnnxBytes::f32, "1234"); },
          "two initializers are called 'w'");
  const auto external = [&](const std::string& place) {
    return [&, place](OnnxBytes& f) {
      const Message entry = Message().text(1, "location").text(2, place);
      f.graph.part(5,
                   Message().number(1, 1).number(2, 1).text(8, "e").part(13, entry).number(14, 1));
      f.node("Mul", {"x", "e"}, {"y"});
    };
  };
  refused(external("../secret"), "expected a file beside this one");
  refused(external("/etc/passwd"), "expected a file beside this one");
  refused(external("missing.bin"), "which is not there");
  reading.write("short.bin", "12");
  refused(external("short.bin"), "expected 4 bytes within it");
  std::filesystem::create_symlink("/etc/passwd", reading.path() / "link");
  refused(external("link"), "a link to");
}

}  // namespace onnx_reader
}  // namespace
}  // namespace accrue::test
