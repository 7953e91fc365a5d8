#pragma once

#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/samples.h"
#include "layers/module.h"

namespace accrue {

// How well a model does on a data set.
struct Score {
  struct Metric {
    std::string name;  // "accuracy"
    double value;
    bool is_count = false;
  };

  double loss = 0;  // mean over the samples
  int64_t samples = 0;
  std::vector<Metric> metrics{};
  std::string text{};  // the metrics in words; without, their names and values

  // Throws Error if there is no such metric.
  double operator[](std::string_view metric) const;
  // "accuracy 97.25 % (1945 of 2000), loss 0.0871", or "Dice 0.9712, IoU 0.9440, loss 0.0871"
  std::string describe() const;
};

// The purpose of a training: the fields of a sample that a model sees and is to answer, the cost of
// its answer, and its score. Everything else, from the data set to the memory that is predicted,
// goes by the fields of the data set, whatever they are. An objective of one's own overrides
// name(), targets() and loss(), and where there is more to say than the loss sums(), add_score()
// and score().
class Objective {
 public:
  virtual ~Objective() = default;

  // "classification"
  virtual std::string name() const = 0;
  // The field that the model sees, and those that the loss and the score need.
  virtual std::string input() const { return "images"; }
  virtual std::vector<std::string> targets() const = 0;
  // The model's answer to samples: by default, to their input alone.
  virtual Tensor answer(const Module& model, const Samples& samples, const Pass& pass) const;
  // The cost of the model's answer, a mean over the samples: a scalar.
  virtual Tensor loss(const Tensor& answer, const Samples& samples) const = 0;

  // A score is made of sums over all samples, f64 [sums()] on the model's device: for each
  // micro-batch add_score() adds its part. By default the one sum is that of the loss.
  virtual int64_t sums() const { return 1; }
  virtual void add_score(const Tensor& sums, const Tensor& answer, const Samples& samples) const;
  virtual Score score(std::span<const double> sums, const Dataset& data) const;

  // Throws Error unless the data set has the fields.
  void check_data(const Dataset& data) const;

 protected:
  // Adds a mean over so many samples to sums f64 [1], where they are, without waiting.
  static void add_mean(const Tensor& sums, const Tensor& mean, int64_t samples);
  // Adds as many values to the sums, wherever they are. Waits for the device.
  static void add_to(const Tensor& sums, std::initializer_list<double> values);
};

using ObjectivePtr = std::shared_ptr<const Objective>;

// Classes: cross-entropy of logits [N, classes] against labels, and accuracy.
ObjectivePtr classification(std::string input = "images", std::string labels = "labels");
// Numbers [N, ...]: the mean squared error of answers of their shape, and its root.
ObjectivePtr regression(std::string input = "features", std::string targets = "targets");
// That of a data set with labels, with masks (segmentation(), train/segmentation.h), or of glyphs
// (glyph_drawing(), train/zi2zi.h). Throws Error for any other.
ObjectivePtr objective_of(const Dataset& data);

}  // namespace accrue
