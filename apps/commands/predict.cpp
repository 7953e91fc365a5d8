#include "apps/commands/predict.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "apps/cli/load_data.h"
#include "apps/cli/load_network.h"
#include "apps/cli/output.h"
#include "data/atomic_file.h"
#include "data/png.h"
#include "train/memory_prediction.h"
#include "train/score.h"
#include "train/training.h"

namespace accrue::app {
namespace {

namespace fs = std::filesystem;

void make_directory(const fs::path& directory) {
  std::error_code error;
  fs::create_directories(directory, error);
  check(!error, "{}: cannot make this directory for the answers: {}", directory.string(),
        error.message());
}

// The softmax of a row of logits.
std::vector<double> probabilities_of(std::span<const float> logits) {
  const double largest = *std::ranges::max_element(logits);
  std::vector<double> p;
  double sum = 0;
  for (const float logit : logits) sum += p.emplace_back(std::exp(logit - largest));
  for (double& value : p) value /= sum;
  return p;
}

// A cell of a CSV file (RFC 4180).
std::string cell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted(1, '"');
  for (const char c : text) quoted.append(c == '"' ? 2 : 1, c);
  return quoted + '"';
}

std::string name_of_class(const Field& labels, int64_t k) {
  return labels.class_names.empty() ? fmt::format("{}", k)
                                    : labels.class_names.at(static_cast<size_t>(k));
}

std::string heading(const Field& labels) {
  std::string line = "sample,class";
  for (int64_t k = 0; k < labels.classes; ++k)
    line += fmt::format(",{}", cell(name_of_class(labels, k)));
  return line + "\n";
}

std::string name_of_sample(const Dataset& data, int64_t n) {
  return data.names.empty() ? fmt::format("{}", n) : data.names.at(static_cast<size_t>(n));
}

// A line for each of the samples [begin, begin + n), of logits [n, classes].
std::string lines_of(const Tensor& logits, int64_t begin, const Dataset& data) {
  const Tensor host = as_f32(logits);
  const auto classes = static_cast<size_t>(host.size(1));
  const Field& labels = data.field("labels");
  std::string text;
  for (int64_t n = 0; n < host.size(0); ++n) {
    const auto p =
        probabilities_of(host.span<float>().subspan(static_cast<size_t>(n) * classes, classes));
    const int64_t best = std::ranges::max_element(p) - p.begin();
    text += fmt::format("{},{}", cell(name_of_sample(data, begin + n)),
                        cell(name_of_class(labels, best)));
    for (const double value : p) text += fmt::format(",{:.6g}", value);
    text += '\n';
  }
  return text;
}

// Of logits [n, 1, H, W]: above 0 the probability is more than a half.
void write_masks(const Tensor& logits, int64_t begin, const Dataset& data,
                 const fs::path& directory) {
  const Tensor host = as_f32(logits);
  const float* logit = host.span<float>().data();
  for (int64_t n = 0; n < host.size(0); ++n) {
    GrayImage mask(host.size(2), host.size(3));
    for (uint8_t& pixel : mask.pixels) pixel = *logit++ > 0 ? 255 : 0;
    const fs::path name = data.names.empty() ? fmt::format("{:06}", begin + n)
                                             : data.names.at(static_cast<size_t>(begin + n));
    const fs::path path = (directory / name).replace_extension(".png");
    make_directory(path.parent_path());
    write_png(path, mask);
  }
}

}  // namespace

Settings settings_of(PredictOptions& asked, Options& options) {
  static const std::map<std::string, Split> splits{{"train", Split::train}, {"test", Split::test}};
  constexpr Decides no_result = Decides::no_result;
  const Settings all = settings_of(options);
  Settings s;
  s.group("Options")
      .add(options.init, {"weights", no_result, "As train saves them", "FILE.safetensors"})
      .add(asked.out, {"out", no_result, "Where the answers are written", "DIR"})
      .add(asked.split, splits, {"split", no_result, "The samples to answer to"})
      .add(options.micro_batch, {.name = "micro-batch",
                                 .decides = no_result,
                                 .help = "Samples in memory at a time",
                                 .range = positive});
  return s.append(all.in({"Model and data"}).without({"init"})).append(all.in({"Machine"}));
}

void predict(const Options& given, const PredictOptions& asked) {
  const Device device = apply_machine_options(given);
  const Options options = with_options_of_weights(given);
  const Task task = task_of(options.network.kind);
  check(task != Task::drawing,
        "{} holds weights of a network that draws glyphs: expected a model that answers with "
        "classes or masks; glyphs are drawn by accrue font draw",
        options.init);
  const Datasets both = place_data(load_data(options), device);
  const Dataset& data = asked.split == Split::test ? both.test : both.train;
  const LoadedNetwork network = load_network(options, options.model_for(both.train), device);
  const fs::path directory(asked.out);
  make_directory(directory);
  const fs::path table = directory / "predictions.csv";
  if (task == Task::classification) check_writable(table);

  const std::string text = with_fewer_samples(options.micro_batch, [&](int64_t samples) {
    std::string lines;
    for_each_answer(*network.model, *objective_of(data), data, samples,
                    network.parameters.compute_dtype(), device,
                    [&](const Tensor& answer, int64_t begin) {
                      if (task == Task::segmentation) write_masks(answer, begin, data, directory);
                      else lines += lines_of(answer, begin, data);
                    });
    return lines;
  });
  if (task == Task::classification)
    write_text_atomically(table, heading(data.field("labels")) + text);
  fmt::print("{}: {} of {}\n", task == Task::classification ? table.string() : asked.out,
             counted(data.size(), task == Task::classification ? "sample" : "mask"), data.name);
}

}  // namespace accrue::app
