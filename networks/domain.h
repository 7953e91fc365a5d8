#pragma once

#include <memory>
#include <string>
#include <vector>

#include "images/domain.h"
#include "networks/domain_file.h"
#include "tables/domain.h"

namespace accrue::detail {

// The domain of networks in ONNX files (onnx/reader/network.h), which are models by the names of
// their files. They learn from images and tables, and what they learn follows from the data.
class NetworkFiles : public Domain {
 public:
  std::vector<std::string> trained;  // constants of the file that are trained, too
  std::string output;                // that answers; empty: the only one
  bool verifies = false;             // by onnxruntime
  // Their settings of losses, labels and masks, which have the same names here.
  Images images;
  Tables tables;

  std::unique_ptr<Domain> clone() const override { return std::make_unique<NetworkFiles>(*this); }
  std::unique_ptr<Domain> fresh() const override { return std::make_unique<NetworkFiles>(); }
  void assign(const Domain& other) override { *this = dynamic_cast<const NetworkFiles&>(other); }
  Settings settings(TrainingOptions& training) override;

  // The open file, or none.
  std::vector<DomainModel> models() const override;
  bool open_model(const std::string& name) override;
  Metadata implied_settings(const std::set<std::string>& given) const override;
  bool fill(const SampleSpec& sample, const Parameters& parameters) const override;
  std::optional<std::string> own_file(const SampleSpec& sample,
                                      const Parameters& parameters) const override;
  ModelFactory factory(const std::string& model, const NetworkOptions& options,
                       const SampleSpec& sample) const override;
  // As the domains of images and tables, by the data's fields, or regression() of numbers.
  ObjectivePtr objective(const Dataset& data) const override;
  // Compares the file with the one that the weights were saved with.
  void remember(const std::string& weights, const Metadata& said) override;
  Metadata remembered() const override;
  Metadata taught_by(const Dataset& data) const override;
  Metadata identity() const override;
  const Field* told_apart(const DomainModel& model, const Dataset& data) const override;
  std::vector<std::string> remarks(const std::string& model, const Dataset& data) const override;
  Descriptions descriptions() const override;
  std::string where_it_answers() const override { return "accrue predict asks it"; }

  Claim claim(const std::string&) const override { return Claim::none; }
  std::vector<std::string> data_sets() const override { return {}; }
  Datasets load(const DataRequest& request) const override;
  void fit(Datasets& data, const DomainModel& model, const DataRequest& request) const override;

  // Its inputs, outputs, weights, constants and calls, as names and texts, for people. Without what
  // only a network knows, if the file cannot be trained.
  std::vector<std::pair<std::string, std::string>> facts(const SampleSpec& sample) const;

  // The open file. Throws Error if there is none.
  const NetworkFile& file() const;
  // How the file becomes a network for such samples.
  NetworkFile::Choice choice(const SampleSpec& sample) const;

 private:
  ObjectivePtr objective_of_numbers(const Dataset& data) const;
  void check_answers(const Dataset& data, const DataRequest& request) const;

  std::string name_;  // as the user gave it
  std::shared_ptr<const NetworkFile> file_;
};

}  // namespace accrue::detail
