#pragma once

#include <memory>
#include <optional>
#include <string>

#include "core/inside.h"
#include "python/arrays.h"
#include "train/domain.h"

namespace accrue::python {

// A network of layers and data in arrays, which a caller gives in place of names. The program calls
// them the model `sequential` and the data set `arrays`.
class Given : public Domain {
 public:
  struct Network {
    ModelFactory make;
    std::string description;
  };

  std::optional<Network> network;
  std::string loss;                  // of the network; empty: one that fits the data
  std::vector<std::string> classes;  // the names of its classes; empty: numbers
  // The fields are images, and labels, masks or targets; or sources, targets and styles. load()
  // returns their elements and keeps none, to free them once the data is converted.
  std::shared_ptr<Datasets> arrays;

  std::unique_ptr<Domain> clone() const override { return std::make_unique<Given>(*this); }
  std::unique_ptr<Domain> fresh() const override { return std::make_unique<Given>(); }
  void assign(const Domain& other) override { *this = dynamic_cast<const Given&>(other); }
  Settings settings(TrainingOptions& training) override;
  // The samples of the network, or of one that is built in.
  Taken taken() const;
  // True for a choice of a network, which the layers that were given say themselves.
  bool ignores(const std::string& setting) const;
  std::vector<DomainModel> models() const override;
  ModelFactory factory(const std::string& model, const NetworkOptions& options,
                       const SampleSpec& sample) const override;
  // classification(), segmentation() or regression(), by the data's fields. Throws Error for a loss
  // that does not fit them.
  ObjectivePtr objective(const Dataset& data) const override;
  // Labels or masks, whichever the data has.
  const Field* told_apart(const DomainModel& model, const Dataset& data) const override;
  Claim claim(const std::string& data) const override;
  std::vector<std::string> data_sets() const override;
  // True for ignore-mask, the value of pixels that nobody has judged, if the data has masks.
  bool heeds(const std::string& setting, const std::string& data) const override;
  Datasets load(const DataRequest& request) const override;
  void fit(Datasets& data, const DomainModel& model, const DataRequest& request) const override;
};

inline constexpr const char* given_model = "sequential";
inline constexpr const char* given_data = "arrays";

}  // namespace accrue::python
