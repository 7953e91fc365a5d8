#include "tests/support/golden_window.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "data/safetensors.h"
#include "tests/support/device.h"
#include "tests/support/paths.h"
#include "train/weights.h"

namespace accrue::test {

const std::vector<MicroBatchSizes> golden_splits{
    {12}, {6, 6}, {5, 4, 3}, MicroBatchSizes(golden_window_size, 1)};

std::map<std::string, Tensor> golden_tensors(const std::string& name) {
  const auto tensors = read_safetensors(source_folder + "/tests/golden/" + name + ".safetensors");
  return {tensors.begin(), tensors.end()};
}

Tensor as_f64(const Tensor& source, Device device) {
  return Tensor::from(to_doubles(source), source.shape(), device);
}

std::vector<MicroBatch> micro_batches_of(const Samples& window, const MicroBatchSizes& split) {
  std::vector<int32_t> numbers(static_cast<size_t>(window.size()));
  std::iota(numbers.begin(), numbers.end(), 0);
  const Tensor indices =
      Tensor::from(numbers, {window.size()}, window.fields.front().values.device());
  std::vector<MicroBatch> parts;
  int64_t begin = 0;
  for (const int64_t n : split) {
    parts.push_back(
        {window.slice(begin, begin + n), indices.slice(begin, begin + n), window.size()});
    begin += n;
  }
  parts.back().ends_window = true;
  return parts;
}

std::vector<MicroBatch> share_of(Ranks* ranks, const std::vector<MicroBatch>& all) {
  if (!ranks) return all;
  const int64_t K = std::ssize(all), R = ranks->count(), r = ranks->rank();
  const auto begin = [&](int64_t rank) { return K / R * rank + std::min(rank, K % R); };
  std::vector<MicroBatch> own(all.begin() + begin(r), all.begin() + begin(r + 1));
  if (!own.empty()) own.back().ends_window = true;
  return own;
}

void WindowOutcome::add_step(Window& window) {
  const StepReport report = window.reports(Window::Wait::yes).at(0);
  check(!report.skipped, "a window was skipped");  // may run on another thread than Catch's
  losses.push_back(report.loss);
  norms.push_back(report.grad_norm);
  if (losses.size() > 1 || !window.can_abandon()) return;
  for (const auto& [name, sum, scale] : window.last_gradients())
    for (const double g : to_doubles(sum)) gradients[name].push_back(g * scale);
}

void WindowOutcome::set_weights(const Parameters& parameters) {
  for (const auto& [name, tensor] : named_tensors(parameters)) weights[name] = to_doubles(tensor);
}

double difference(const WindowOutcome& found, const WindowOutcome& expected) {
  double most = largest_difference(found.losses, expected.losses);
  for (size_t i = 0; i < found.norms.size(); ++i)
    if (!std::isnan(found.norms[i]))
      most = std::max(most, std::abs(found.norms[i] - expected.norms.at(i)));
  if (!expected.weights.empty())
    for (const auto& [name, values] : found.weights)
      most = std::max(most, largest_difference(values, expected.weights.at(name)));
  for (const auto& [name, values] : found.gradients)
    most = std::max(most, largest_difference(values, expected.gradients.at(name)));
  return most;
}

WindowOutcome by_pytorch(const std::map<std::string, Tensor>& stored, int steps) {
  WindowOutcome outcome{
      to_doubles(stored.at("loss.all")), to_doubles(stored.at("grad_norm.all")), {}, {}};
  for (const auto& [name, tensor] : stored) {
    if (name.starts_with("grad.all.")) outcome.gradients[name.substr(9)] = to_doubles(tensor);
    if (name.starts_with("final.all.") && steps == golden_steps)
      outcome.weights[name.substr(10)] = to_doubles(tensor);
  }
  outcome.losses.resize(size_t(steps));
  outcome.norms.resize(size_t(steps));
  return outcome;
}

}  // namespace accrue::test
