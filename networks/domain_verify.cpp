#include "networks/domain_verify.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <string_view>

#include "core/autograd.h"
#include "core/inside.h"
#include "core/random.h"
#include "data/filter.h"

namespace accrue {
namespace embedded {
extern const std::string_view verify_py;
}

namespace {

// The file's own number of samples, which other programs may insist on, or else two.
int64_t samples_of(const OnnxValueInfo& input) {
  const auto* const fixed = std::get_if<int64_t>(&input.sizes.front());
  return fixed ? *fixed : 2;
}

std::vector<double> numbers_of(const Tensor& tensor) {
  return dispatch_wide(tensor.dtype(), [&]<class T>() {
    const auto all = tensor.span<T>();
    return std::vector<double>(all.begin(), all.end());
  });
}

bool trains(const OnnxNode& node) {
  return node.op == "BatchNormalization" && node.integer("training_mode", 0) == 1;
}

// The mode in which onnxruntime runs the file: its batch norms may take the batch's statistics.
// Throws Error for dropout in such a file, which draws other numbers there.
Pass::Mode mode_of(const OnnxFile& file) {
  if (std::ranges::none_of(file.nodes, trains)) return Pass::Mode::eval;
  const auto dropout = std::ranges::find(file.nodes, "Dropout", &OnnxNode::op);
  check(dropout == file.nodes.end(),
        "--verify: '{}' was exported for training with dropout, which onnxruntime draws in its own "
        "way: expected no --verify, or the same network exported for inference",
        file.path.string());
  return Pass::Mode::train;
}

std::vector<double> own_answers(const OnnxNetwork& network, const Tensor& x, DType dtype) {
  const auto model = network.make();
  const Parameters parameters = place(*model, dtype, Device::cpu, 0, GradientStorage::on_demand);
  network.load(parameters);
  Tensor in = Tensor::empty(x.shape(), dtype, Device::cpu);
  dispatch_wide(dtype,
                [&]<class T>() { std::ranges::copy(x.span<float>(), in.span<T>().begin()); });
  const NoGrad no_grad;
  return numbers_of((*model)(std::move(in), Pass{.mode = mode_of(network.file())}));
}

std::vector<double> answers_of_onnxruntime(const NetworkFile& network, const std::string& output,
                                           const Tensor& x) {
  std::vector<std::string> command{"python3", "-c", std::string(embedded::verify_py),
                                   network.name(), output};
  for (const int64_t size : x.shape().sizes()) command.push_back(std::to_string(size));
  const auto elements = std::as_bytes(x.span<float>());
  bool is_written = false;
  const auto input = [&]() -> std::string {
    if (std::exchange(is_written, true)) return "";
    return {reinterpret_cast<const char*>(elements.data()), elements.size()};
  };
  constexpr size_t most_bytes = size_t{1} << 30;
  const Filtered run = run_filter(command, input, most_bytes);
  constexpr int not_installed = 3, not_found = 127;  // 3: verify.py
  constexpr const char* to_do = "python3 -m pip install onnxruntime, or no --verify";
  check(run.status != not_found,
        "--verify asks onnxruntime in python3, which is not on the PATH: {}", to_do);
  check(run.status != not_installed,
        "--verify asks onnxruntime, which the python3 on the PATH lacks: {}", to_do);
  check(run.status == 0, "--verify: onnxruntime cannot run '{}': {}", network.name(), run.errors);
  std::vector<float> answers(run.output.size() / sizeof(float));
  std::memcpy(answers.data(), run.output.data(), answers.size() * sizeof(float));
  return {answers.begin(), answers.end()};
}

// NaN if one of the numbers is.
double largest_difference_of(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double difference = a[i] == b[i] ? 0 : std::abs(a[i] - b[i]);  // infinities, too
    if (std::isnan(difference)) return difference;
    largest = std::max(largest, difference);
  }
  return largest;
}

}  // namespace

std::string detail::verified(const NetworkFile& network, const std::vector<std::string>& trained,
                             const std::string& output, const Shape& sample) {
  constexpr double margin = 16, epsilon = 0x1p-23;
  std::vector<int64_t> sizes{samples_of(network.input())};
  std::ranges::copy(sample.sizes(), std::back_inserter(sizes));
  Tensor x = Tensor::empty(Shape(sizes), DType::f32, Device::cpu);
  RandomStream random(0);
  for (float& each : x.span<float>()) each = random.normal();
  const std::string name = network.output(output).name;
  const auto made =
      network.network({.trained = trained, .output = output, .left_out = {}, .sample = sample});
  const std::vector<double> ours = own_answers(*made, x, DType::f32),
                            exact = own_answers(*made, x, DType::f64),
                            theirs = answers_of_onnxruntime(network, name, x);
  check(ours.size() == theirs.size(),
        "--verify: the output '{}' of {} has {} numbers, but {} by onnxruntime: expected as many",
        name, network.name(), ours.size(), theirs.size());
  double most = 0;
  for (const double y : exact) most = std::max(most, std::abs(y));
  const double bound = margin * (largest_difference_of(ours, exact) + most * epsilon);
  const double difference = largest_difference_of(ours, theirs);
  check(difference <= bound,
        "--verify: the output '{}' of {} differs from onnxruntime's by {:.3g}: expected at most "
        "{:.3g}, because answers are up to {:.3g}",
        name, network.name(), difference, bound, most);
  return fmt::format(
      "{}: the output '{}' differs from onnxruntime's by {:.3g} at most, of numbers up to {:.3g}",
      network.name(), name, difference, most);
}

}  // namespace accrue
