#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "core/inside.h"
#include "python/arrays.h"
#include "python/network.h"
#include "train/domain.h"
#include "train/label_options.h"

namespace accrue::python {

// A network of layers and data in arrays, which a caller gives in place of names. The program calls
// them the model `sequential` and the data set `arrays`.
class Given : public Domain {
 public:
  struct Network {
    ModelFactory make;
    std::string description;
    // By their names, with their sizes if these are known.
    std::vector<python::Network::Input> inputs{};
    std::vector<std::string> outputs{"y"};
    bool has_one_of_each() const { return inputs.size() <= 1 && outputs.size() == 1; }
    Shape input() const;  // the first one's, of a sample, where there is no data
  };

  std::optional<Network> network;
  std::string loss;                      // of the network; empty: what fits the data
  std::vector<std::string> classes;      // the names of its classes; none: numbers
  LabelOptions labels;                   // class weights also of masks
  std::vector<double> positive_weights;  // of bce of numbers
  double loss_beta = 1;                  // of smooth-l1
  // The fields are images, and labels, masks or targets, and weights where the caller gives them;
  // or sources, targets and styles; or, if has_names, of the caller's names. load()
  // gives their elements away, so that what the data is made into does not lie beside them.
  std::shared_ptr<Datasets> arrays;
  bool has_names = false;

  std::unique_ptr<Domain> clone() const override { return std::make_unique<Given>(*this); }
  std::unique_ptr<Domain> fresh() const override { return std::make_unique<Given>(); }
  void assign(const Domain& other) override { *this = dynamic_cast<const Given&>(other); }
  Settings settings(TrainingOptions& training) override;
  // The samples of the network, or of one that is built in.
  Taken taken() const;
  // The length of the second dimension of the network's answers to numbers [N, ...]; none if it
  // does not take such.
  std::optional<int64_t> answers_to(const Shape& numbers) const;
  // True for a choice of a network, which the layers that were given say themselves.
  bool ignores(const std::string& setting) const;
  std::vector<DomainModel> models() const override;
  ModelFactory factory(const std::string& model, const NetworkOptions& options,
                       const SampleSpec& sample) const override;
  // classification(), segmentation() or regression(), by the data's fields. Throws Error for a loss
  // that does not fit them.
  ObjectivePtr objective(const Dataset& data) const override;
  ObjectivePtr objective_of_names(const Dataset& data) const;
  // With all inputs and outputs, by their names, where there are several, or integers come in.
  Example example(const accrue::Layer& layer, const SampleSpec& sample, int64_t N) const override;
  Metadata taught_by(const Dataset& data) const override { return labels.taught_by(data); }
  // Labels or masks, whichever the data has.
  const Field* told_apart(const DomainModel& model, const Dataset& data) const override;
  Claim claim(const std::string& data) const override;
  std::vector<std::string> data_sets() const override;
  // True for ignore-mask, the value of pixels that nobody has judged, if the data has masks.
  bool heeds(const std::string& setting, const std::string& data) const override;
  void augment(Dataset& data, const DataRequest& request) const override;
  Datasets load(const DataRequest& request) const override;
  void fit(Datasets& data, const DomainModel& model, const DataRequest& request) const override;

 private:
  // Where the loss or the score counts by classes, the labels have all classes that the network
  // tells apart, also those that no sample has.
  void count_classes(Datasets& data) const;
};

// The shape of a network's answer to one sample of this shape [N, ...]; none if it does not take
// such.
std::optional<Shape> shape_of_answers(const ModelFactory& make, const Shape& x);
// The shapes of all of a network's answers to one sample, by the outputs' names; none if it does
// not take samples of its inputs' sizes.
std::map<std::string, Shape> shapes_of_answers(const Given::Network& network);
// The number of classes that answers of this shape, of rank 2 or more, tell apart: to labels or
// masks, or to labels [N, T] at places.
int64_t classes_told_apart(const Shape& answers, const Field& of);

// True for a question by names, and for a network with several outputs, whose answers have names.
bool has_named_answers(nb::handle x, const Given::Network& network);

inline constexpr const char* given_model = "sequential";
inline constexpr const char* given_data = "arrays";

}  // namespace accrue::python
