#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tables/table_options.h"
#include "train/domain.h"
#include "train/label_options.h"

namespace accrue::detail {

// The domain of tables: rows of numbers and classes in CSV, and perceptrons that answer some
// columns from the others.
class Tables : public Domain {
 public:
  std::vector<std::string> targets;     // the columns to learn
  std::vector<std::string> left_out;    // columns that are not seen
  std::vector<std::string> categories;  // columns of numbers that are classes
  std::string weight_column;            // a column
  std::string loss;
  double hold_out = 0.1;
  LabelOptions labels{.field = "targets"};

  std::unique_ptr<Domain> clone() const override { return std::make_unique<Tables>(*this); }
  std::unique_ptr<Domain> fresh() const override { return std::make_unique<Tables>(); }
  void assign(const Domain& other) override { *this = dynamic_cast<const Tables&>(other); }
  Settings settings(TrainingOptions& training) override;
  std::vector<DomainModel> models() const override;
  std::string implied_model(const std::string& asked) const override;
  ModelFactory factory(const std::string& model, const NetworkOptions& options,
                       const SampleSpec& sample) const override;
  // By the loss: classification() with the accuracy of each class, regression() of labels, or
  // table_regression().
  ObjectivePtr objective(const Dataset& data) const override;
  void remember(const std::string& weights, const Metadata& said) override;
  // Networks of another domain may have learned from a table, too.
  void see(const SampleSpec& /*learned*/, const Metadata& said,
           const std::set<std::string>& /*given*/) override {
    remember({}, said);
  }
  // The columns, and the loss.
  Metadata taught_by(const Dataset& data) const override;
  // Samples that a caller gives to a network of a table are not standardized here.
  std::vector<std::string> warnings(const std::string& model, const Dataset& data) const override;
  std::string where_it_answers() const override { return "accrue predict asks it about a table"; }
  Descriptions descriptions() const override;
  Claim claim(const std::string& data) const override;
  std::vector<std::string> data_sets() const override { return {"moons"}; }
  bool heeds(const std::string& setting, const std::string& data) const override;
  Datasets load(const DataRequest& request) const override;
  void fit(Datasets& data, const DomainModel& model, const DataRequest& request) const override;
  void augment(Dataset& data, const DataRequest& request) const override;

 private:
  TableOptions table_options(const DataRequest& request) const;

  std::optional<TableColumns> known_;  // by the weights that a command begins with
};

}  // namespace accrue::detail
