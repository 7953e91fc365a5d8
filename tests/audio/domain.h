#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/inside.h"
#include "train/domain.h"

namespace accrue::test {

// A domain of audio clips, as users may write one: the built-in data set `waves` of sines and
// squares, and the model `listener` that tells them apart. A program adds it to its list (Domains).
class Audio : public Domain {
 public:
  int64_t length = 48;  // of a clip: T
  double noise = 0.1;

  std::unique_ptr<Domain> clone() const override { return std::make_unique<Audio>(*this); }
  std::unique_ptr<Domain> fresh() const override { return std::make_unique<Audio>(); }
  void assign(const Domain& other) override { *this = dynamic_cast<const Audio&>(other); }
  Settings settings(TrainingOptions& training) override;
  std::vector<DomainModel> models() const override;
  ModelFactory factory(const std::string& model, const NetworkOptions& options,
                       const SampleSpec& sample) const override;
  ObjectivePtr objective(const Dataset& data) const override;
  Claim claim(const std::string& data) const override;
  std::vector<std::string> data_sets() const override { return {"waves"}; }
  Datasets load(const DataRequest& request) const override;
  void fit(Datasets& data, const DomainModel& model, const DataRequest& request) const override;
};

}  // namespace accrue::test
