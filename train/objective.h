#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/samples.h"
#include "layers/module.h"

namespace accrue {

// The score of a model on a data set.
struct Score {
  struct Metric {
    std::string name;  // "accuracy"
    double value;      // NaN if the data say nothing of it
    bool is_count = false;
  };

  double loss = 0;  // mean over the samples
  int64_t samples = 0;
  std::vector<Metric> metrics{};
  std::string text{};  // the metrics in words; if empty, their names and values are used

  // Throws Error if there is no such metric.
  double operator[](std::string_view metric) const;
  // "accuracy 97.25 % (1945 of 2000), loss 0.0871", or "Dice 0.9712, IoU 0.9440, loss 0.0871"
  std::string describe() const;
};

namespace detail {

// The meaning of numbers that a run logs, by their names.
using Descriptions = std::map<std::string, std::string, std::less<>>;

}  // namespace detail

// The purpose of a training: the fields of a sample that a model sees, those that it is to answer,
// the cost of its answer, and its score. Everything else, from the data set to the predicted
// memory, works with any fields of a data set. To write an objective, override name(), targets()
// and loss(), and for a score with more than the loss also sums(), add_score() and score().
class Objective {
 public:
  virtual ~Objective() = default;

  // "classification"
  virtual std::string name() const = 0;
  // The field that the model sees, empty for the data's first, and those that the loss and the
  // score need.
  virtual std::string input() const { return {}; }
  virtual std::vector<std::string> targets() const = 0;
  // The model's answer to samples: by default, to their input alone.
  virtual Tensor answer(const Layer& model, const Samples& samples, const Pass& pass) const;
  // How often it runs the model for an answer.
  virtual int64_t forwards() const { return 1; }
  // The cost of the model's answer: a scalar, a mean over the samples, or over what weight()
  // counts.
  virtual Tensor loss(const Tensor& answer, const Samples& samples) const = 0;
  // True if the loss in training is that of all samples of a window together, such as one that
  // compares them with each other: window_loss(), a mean over answers [N, ...].
  virtual bool is_of_window() const { return false; }
  virtual Tensor window_loss(const Tensor& answers) const;
  // How much the loss of these samples counts, f64 [] on their device, a whole sample being about
  // 1: the judged part of their pixels, say. Undefined if each sample counts alike.
  virtual Tensor weight(const Samples& samples) const;
  // What the loss is a mean over, in words, and how many a whole sample of the data has, which
  // counts 1 in weight(): tokens, say.
  struct Terms {
    std::string name = "samples";
    double of_sample = 1;
  };
  virtual Terms terms_in(const Dataset&) const { return {}; }
  // The length of a sample that answer() can compute in pieces (Pass::piece), such as the tokens of
  // a row; 0 if it cannot.
  virtual int64_t divisible_length(const Dataset&) const { return 0; }

  // A score is made of sums over all samples, f64 [sums()] on the model's device: add_score() adds
  // the part of a micro-batch. By default there is one sum, that of the loss. A score must not
  // depend on how the samples are cut into micro-batches: what compares them with each other is
  // scored all at once, by add_score_of_all(), which comes last, with the answers of all samples.
  // Both also run on a meta device, where they are charged for what they allocate, and nothing has
  // elements: add_on_host() reads there.
  virtual bool scores_all_at_once() const { return false; }
  virtual int64_t sums() const { return 1; }
  virtual void add_score(const Tensor& sums, const Tensor& answer, const Samples& samples) const;
  virtual void add_score_of_all(const Tensor& sums, const Tensor& answers) const;
  virtual Score score(std::span<const double> sums, const Dataset& data) const;

  // Throws Error unless the data set has the fields.
  void check_data(const Dataset& data) const;

 protected:
  // Adds samples * mean to sums f64 [1], on their device, without waiting for it.
  static void add_mean(const Tensor& sums, const Tensor& mean, int64_t samples);
  // Adds a value to each of the sums, on any device but a meta device, where `values` is not
  // called. It computes them on the host from tensors on any device (as_f32()). Waits for the
  // device.
  static void add_on_host(const Tensor& sums, const std::function<std::vector<double>()>& values);
};

// An objective that trainings share.
using ObjectivePtr = std::shared_ptr<const Objective>;

// For classes: cross-entropy of logits [N, classes] against labels, and accuracy.
ObjectivePtr classification(std::string input = {}, std::string labels = "labels");
// For numbers [N, ...]: the mean squared error of answers of their shape, and its root.
ObjectivePtr regression(std::string input = "features", std::string targets = "targets");

namespace detail {

// Classification, for a data set with labels. Throws Error for any other, whose objective must be
// said.
ObjectivePtr objective_of(const Dataset& data);

}  // namespace detail

}  // namespace accrue
