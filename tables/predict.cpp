#include "tables/predict.h"

#include <fmt/ranges.h>

#include <cmath>
#include <filesystem>

#include "data/atomic_file.h"
#include "data/csv_cell.h"
#include "data/new_directory.h"
#include "job/load_data.h"
#include "job/load_network.h"
#include "job/machine.h"
#include "job/paths.h"
#include "tables/domain.h"
#include "train/class_table.h"
#include "train/memory_prediction.h"
#include "train/score.h"
#include "train/training.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;

std::string heading_of_numbers(const TableColumns& columns) {
  std::string line = "sample";
  for (const Column& column : columns.targets) line += "," + csv_cell(column.name);
  if (columns.loss == loss_of_labels)
    for (const Column& column : columns.targets)
      line += "," + csv_cell(column.name + ".probability");
  return line + "\n";
}

std::string lines_of_numbers(const Tensor& answer, int64_t begin, const TableColumns& columns) {
  const Tensor host = as_f32(answer);
  const auto all = host.span<float>();
  const size_t K = columns.targets.size();
  const bool are_labels = columns.loss == loss_of_labels;
  std::string text;
  for (size_t n = 0; n < all.size() / K; ++n) {
    text += fmt::format("{}", begin + static_cast<int64_t>(n));
    std::string probabilities;
    for (size_t k = 0; k < K; ++k) {
      const double x = double(all[n * K + k]);
      if (are_labels) {
        text += x > 0 ? ",1" : ",0";
        probabilities += fmt::format(",{:.6g}", 1 / (1 + std::exp(-x)));
      } else {
        const Column& column = columns.targets[k];
        text += fmt::format(",{:.7g}", x * column.std + column.mean);
      }
    }
    text += probabilities + '\n';
  }
  return text;
}

// The request with the one table that is named, by --data or without.
Request with_one_table(Request request, const AnswerFiles& asked) {
  check(asked.unheeded.empty(), "--{} has no effect with a table: expected none",
        fmt::join(asked.unheeded, ", --"));
  check(asked.paths.size() + !request.data.empty() <= 1,
        "{} is one table too many: expected one FILE.csv",
        asked.paths.empty() ? "" : asked.paths.back());
  if (!asked.paths.empty()) request.data = asked.paths.front();
  check(!request.given.contains("hold-out"),
        "--hold-out has no effect here: all rows of a table are answered");
  check(!request.given.contains("weight-column"),
        "--weight-column has no effect here: rows are answered, and not scored");
  return request;
}

}  // namespace

void predict_table(const Request& options, const AnswerFiles& asked, const Notices& notices) {
  const Request request = with_one_table(options, asked);
  const Device device = apply_machine_settings(request, notices);
  Datasets loaded = load_data(request, DataUse::prediction, notices);
  loaded.train = {};
  const Dataset data = place_data(std::move(loaded), device).test;
  const TableColumns columns = TableColumns::read(data.taught.at(table_key));
  const SampleSpec here = request.sample_in(data);
  const LoadedNetwork network =
      load_network(request, here.with(here.input().shape, columns.answers()), device);
  const fs::path directory(asked.out), table = directory / "predictions.csv";
  Paths paths;
  paths.read("--data", request.data);
  paths.read("--weights", request.init);
  paths.check_answers("--out " + asked.out, {table}, asked.force);
  make_directory(directory);
  check_writable(table);

  const Field classes{.name = "targets",
                      .values = {},
                      .encoding = Encoding::index,
                      .classes = std::ssize(columns.classes),
                      .class_names = columns.classes};
  const bool are_classes = columns.loss == loss_of_classes;
  const std::string text = with_fewer_samples(request.micro_batch, [&](int64_t samples) {
    std::string lines;
    for_each_answer(*network.model, *classification("features"), data, samples,
                    network.parameters.compute_dtype(), device,
                    [&](const Tensor& answer, const Samples&, int64_t begin) {
                      lines += are_classes ? class_table_lines(answer, begin, data, classes)
                                           : lines_of_numbers(answer, begin, columns);
                    });
    return lines;
  });
  write_text_atomically(
      table, (are_classes ? class_table_heading(classes) : heading_of_numbers(columns)) + text);
  notices.say("{}: {} of {}", table.string(), counted(data.size(), "sample"), data.name);
}

}  // namespace accrue
