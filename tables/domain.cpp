#include "tables/domain.h"

#include <algorithm>
#include <array>
#include <bit>
#include <filesystem>
#include <map>

#include "data/words.h"
#include "layers/models.h"
#include "tables/domain_data.h"
#include "tables/moons.h"
#include "tables/table_regression.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;

constexpr const char *mlp_name = "table-mlp", *linear_name = "table-linear";

// The loss as files name it; PyTorch's smooth_l1 is smooth-l1.
std::string loss_called(std::string text) {
  std::ranges::replace(text, '_', '-');
  check(text.empty() || text == loss_of_classes || detail::number_losses().contains(text),
        "--loss {}: a table takes cross-entropy for classes, mse, l1 or smooth-l1 for numbers, and "
        "bce for columns of 0 and 1",
        text);
  return text;
}

bool is_table_file(const fs::path& path) {
  const std::string extension = lower(path.extension().string());
  std::error_code ignored;
  return (extension == ".csv" || extension == ".tsv") && fs::is_regular_file(path, ignored);
}

// The tables of a directory that has train.csv and test.csv and nothing else.
std::optional<std::array<fs::path, 2>> tables_in(const fs::path& directory) {
  std::error_code ignored;
  if (!fs::is_directory(directory, ignored)) return std::nullopt;
  const std::array tables{directory / "train.csv", directory / "test.csv"};
  if (!std::ranges::all_of(tables, is_table_file)) return std::nullopt;
  int64_t entries = 0;
  for (const auto& entry : fs::directory_iterator(directory, ignored))
    entries += !entry.path().filename().string().starts_with('.');
  return entries == 2 ? std::optional(tables) : std::nullopt;
}

// A hidden layer has twice as many numbers as it sees or answers, as a power of two from 32 to 256.
int64_t hidden_size(const SampleSpec& sample, double width) {
  const int64_t most = std::max(sample.input().shape.numel(), sample.classes());
  const auto size = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(2 * most)));
  return scaled(std::clamp<int64_t>(size, 32, 256), width);
}

TableColumns columns_of(const Dataset& data) {
  const auto found = data.taught.find(table_key);
  check(found != data.taught.end(), "the data set {} is no table", data.name);
  return TableColumns::read(found->second);
}

}  // namespace

Settings Tables::settings(TrainingOptions&) {
  const ActsWith with_tables{{"model", {linear_name, mlp_name, any_model_file}}};
  Settings own;
  own.group("Model and data")
      .add(loss, {.name = "loss",
                  .decides = Decides::result,
                  .help = "The loss of a table: cross-entropy of classes; of numbers mse, l1 or "
                          "smooth-l1; bce of columns of 0 and 1, of which a row may have several; "
                          "without, by what --target holds",
                  .takes = "LOSS",
                  .acts_with = with_tables,
                  .saved = Saved::with_scores,
                  .acts_in = ActsIn::scores});
  add_settings(own, labels, with_tables, with_tables);
  own.add(hold_out, {.name = "hold-out",
                     .decides = Decides::result,
                     .help = "In a table, the part of its rows that is for the test",
                     .range = {0, 0.99},
                     .data = "a table",
                     .acts_in = ActsIn::samples});
  Settings s;
  for (const Setting& setting : own) {
    SettingFacts about = setting.about;
    about.with_namesake = true;
    s.group(setting.group).add_again(setting, std::move(about));
  }
  const auto of_columns = [&](std::string name, std::string help) {
    return SettingFacts{.name = std::move(name),
                        .decides = Decides::result,
                        .help = std::move(help),
                        .takes = "COLUMN,...",
                        .acts_with = with_tables,
                        .acts_in = ActsIn::samples};
  };
  SettingFacts target = of_columns(
      "target",
      "The columns of a table to answer: one of classes or of numbers, or several of numbers; 0 "
      "and 1 in several columns are labels, or with --loss cross-entropy one class");
  target.saved = Saved::with_scores;  // a new head may learn others; else the table refuses them
  target.asked_by = AskedBy::most_runs;
  s.group("Model and data")
      .add(targets, std::move(target))
      .add(left_out, of_columns("leave-out", "Columns of a table that the network does not see"))
      .add(categories, of_columns("categories", "Columns of a table whose numbers are classes"))
      .add(weight_column, {.name = "weight-column",
                           .decides = Decides::result,
                           .help = "The column of a table that says how much a row counts in the "
                                   "loss, which is a mean over these weights",
                           .takes = "COLUMN",
                           .alias = "sample-weight",
                           .acts_with = with_tables,
                           .saved = Saved::with_scores,
                           .acts_in = ActsIn::samples});
  return s;
}

std::vector<DomainModel> Tables::models() const {
  std::vector<DomainModel> all;
  for (const char* name : {linear_name, mlp_name}) {
    std::vector<std::string> heeds{"dropout", "init-scheme"};
    if (name == mlp_name) heeds.emplace_back("width");
    all.push_back({.name = name,
                   .sample = {{{"features", Encoding::number, {2}},
                               {.name = "targets", .encoding = Encoding::index, .classes = 2}}},
                   .data = "moons",
                   .heeds = std::move(heeds)});
  }
  return all;
}

std::string Tables::implied_model(const std::string& asked) const {
  if (targets.empty() || is_model_file(asked)) return {};
  if (asked == linear_name) return linear_name;
  check(asked.empty() || asked == mlp_name,
        "--model {}, but --target names columns of a table: expected --model {} or {}, or no "
        "--model",
        asked, mlp_name, linear_name);
  return mlp_name;
}

ModelFactory Tables::factory(const std::string& model, const NetworkOptions& options,
                             const SampleSpec& sample) const {
  std::vector<int64_t> sizes{sample.input().shape.numel(), sample.classes()};
  if (model == mlp_name) sizes.insert(sizes.begin() + 1, 2, hidden_size(sample, options.width));
  return [=] { return make_mlp(sizes, options.dropout, options.init); };
}

ObjectivePtr Tables::objective(const Dataset& data) const {
  const TableColumns columns = columns_of(data);
  if (columns.loss == loss_of_classes) {
    LabelOptions wanted = labels;
    wanted.by_class = true;
    return wanted.objective(data);
  }
  for (const auto& [option, is_given] : {std::pair{"class-weights", !labels.class_weights.empty()},
                                         {"label-smoothing", labels.label_smoothing != 0},
                                         {"by-class", labels.by_class}})
    check(!is_given,
          "--{0}: the loss of {1} is {2}: expected classes (--loss cross-entropy), or no --{0}",
          option, data.name, columns.loss);
  const RegressionOptions options{.loss = detail::number_losses().at(columns.loss),
                                  .weights = data.has("weights") ? "weights" : ""};
  const Field& numbers = data.field("targets");
  return columns.loss == loss_of_labels ? regression(numbers, options)
                                        : table_regression(numbers, columns, options);
}

void Tables::remember(const std::string&, const Metadata& said) {
  if (const auto found = said.find(table_key); found != said.end())
    known_ = TableColumns::read(found->second);
}

Metadata Tables::taught_by(const Dataset& data) const {
  Metadata all = data.taught;
  const TableColumns columns = columns_of(data);
  if (columns.loss == loss_of_classes) all.merge(labels.taught_by(data));
  else all["label-smoothing"] = "";
  if (!data.has("weights")) all["weight-column"] = "";
  return all;
}

std::vector<std::string> Tables::warnings(const std::string& model, const Dataset& data) const {
  if (!known_ || data.taught.contains(table_key)) return {};
  return {fmt::format(
      "{} has learned from the columns of a table as numbers of mean 0 and deviation 1: these {} "
      "are taken for such, and not converted; accrue predict reads a table",
      model, data.fields.front().name)};
}

Descriptions Tables::descriptions() const {
  return {{"balanced_accuracy", "The mean over the classes of the accuracy in each."},
          {"f1", "The mean over the labels of F1, from 0 to 1."},
          {"rmse", "The root of the mean squared error, in the column's own unit."},
          {"mae", "The mean absolute error, in the column's own unit."},
          {"r2", "The part of the variance that the answers explain, at most 1."}};
}

Domain::Claim Tables::claim(const std::string& data) const {
  return data == "moons" || is_table_file(data) || tables_in(data) ? Claim::own : Claim::none;
}

bool Tables::heeds(const std::string& setting, const std::string& data) const {
  return setting == "hold-out" && is_table_file(data);
}

TableOptions Tables::table_options(const DataRequest& request) const {
  return {.targets = targets,
          .left_out = left_out,
          .categories = categories,
          .weights = weight_column,
          .weights_may_lack = known_.has_value() && !request.given.contains("weight-column"),
          .loss = loss_called(loss),
          .hold_out = hold_out,
          .known = known_,
          .has_new_head = request.value("new-head") == "yes"};
}

Datasets Tables::load(const DataRequest& request) const {
  if (request.data == "moons") {
    for (const char* of_files : {"target", "leave-out", "categories", "weight-column"})
      check(!request.given.contains(of_files),
            "--{} has no effect with --data moons: expected a table in a file", of_files);
    const std::string asked = loss_called(loss);
    check(asked.empty() || asked == loss_of_classes,
          "--loss {}: moons has classes: expected cross-entropy", loss);
    return make_moons();
  }
  check(!targets.empty(),
        "{} is a table: expected --target COLUMN, the column to learn, or several; for texts, "
        "lines of JSON (accrue text prepare)",
        request.data);
  const TableOptions options = table_options(request);
  if (request.use == DataUse::prediction) {
    check(known_.has_value(),
          "{} is a table, but the weights do not say how its columns are seen: expected weights of "
          "{} or {}",
          request.data, mlp_name, linear_name);
    const Dataset all = read_questions(request.data, options);
    return {all, all};
  }
  const auto tables = tables_in(request.data);
  return tables ? read_tables((*tables)[0], (*tables)[1], options)
                : read_table(request.data, options);
}

void Tables::fit(Datasets& data, const DomainModel& model, const DataRequest& request) const {
  const Dataset& known = data.train;
  check(known.taught.contains(table_key),
        "--model {} learns columns of a table, but the data set {} has {}: expected --data "
        "FILE.csv --target COLUMN, or --data moons",
        model.name, known.name, known.fields.front().name);
  if (request.use == DataUse::prediction) return;
  if (columns_of(known).loss == loss_of_classes) labels.check_data(data.train, request.use);
}

void Tables::augment(Dataset& data, const DataRequest& request) const {
  if (!data.taught.contains(table_key) || request.use != DataUse::training) return;
  if (columns_of(data).loss != loss_of_classes) return;
  if (const std::string weights = labels.describe(data); !weights.empty())
    data.about += (data.about.empty() ? "" : "; ") + weights;
}

}  // namespace accrue
