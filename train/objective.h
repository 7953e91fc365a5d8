#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "accumulate/summed_losses.h"
#include "data/samples.h"
#include "layers/module.h"

namespace accrue {

// The score of a model on a data set.
struct Score {
  struct Metric {
    std::string name;  // "accuracy"
    double value;      // NaN if it is undefined for the data
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

// The meanings of the numbers that a run logs, by name.
using Descriptions = std::map<std::string, std::string, std::less<>>;

}  // namespace detail

// The purpose of a training: the fields of a sample that a model sees, the fields that it should
// answer, the cost of its answer, and its score. Everything else, from the data set to the
// predicted memory, works with any fields of a data set. To write an objective, override name(),
// targets() and loss(). For a score beyond the loss, also override sums(), add_score() and score().
// An objective that needs more of a model than one answer overrides cost() and add_score_of().
class Objective {
 public:
  virtual ~Objective() = default;

  // "classification"
  virtual std::string name() const = 0;
  // input() is the field that the model sees; empty means the data's first field. targets() are the
  // fields that the loss and the score need.
  virtual std::string input() const { return {}; }
  // The fields that the model sees, if it sees several: by default input() alone, if it is not
  // empty.
  virtual std::vector<std::string> inputs() const;
  virtual std::vector<std::string> targets() const = 0;
  // The model's answer to samples: by default, to their input field alone.
  virtual Tensor answer(const Layer& model, const Samples& samples, const Pass& pass) const;
  // How many times answer() runs the model.
  virtual int64_t forwards() const { return 1; }
  // The cost of the model's answer: a scalar, the mean over the samples, or over the things that
  // weight() counts.
  virtual Tensor loss(const Tensor& answer, const Samples& samples) const = 0;
  // The training loss of a micro-batch, which weight() says the weight of, and numbers beside it
  // for reports, which terms() names: by default the loss() of the answer().
  virtual Loss cost(const Layer& model, const Samples& samples, const Pass& pass) const;
  virtual std::vector<std::string> terms() const { return {}; }
  // True if the cost is a sum of losses() that are means over different things, such as judged
  // pixels and samples. A window then looks ahead at weights(), one for each loss: f64 [] as
  // weight(), or undefined for one that counts samples (train/counted_losses.h).
  virtual bool counts_apart(const Dataset&) const { return false; }
  virtual std::vector<NamedLoss> losses(const Layer& model, const Samples& samples,
                                        const Pass& pass) const;
  virtual std::vector<Tensor> weights(const Samples& samples) const;
  // True if the training loss is a function of all samples of a window together, for example
  // because it compares them with each other. That function is window_loss(), a mean over answers
  // [N, ...].
  virtual bool is_of_window() const { return false; }
  virtual Tensor window_loss(const Tensor& answers) const;
  // How much the loss of these samples counts: f64 [] on their device, such as the judged part of
  // their pixels. A whole sample counts about 1. Undefined if all samples count equally.
  virtual Tensor weight(const Samples& samples) const;
  // The name of the things that the loss averages over, such as tokens, and how many of them a
  // whole sample of the data has. A whole sample counts 1 in weight().
  struct Terms {
    std::string name = "samples";
    double of_sample = 1;
  };
  virtual Terms terms_in(const Dataset&) const { return {}; }
  // The length of a sample along which answer() can compute in pieces (Pass::piece), such as the
  // tokens of a row; 0 if it cannot.
  virtual int64_t divisible_length(const Dataset&) const { return 0; }

  // A score is computed from sums over all samples, f64 [sums()] on the model's device. add_score()
  // adds a micro-batch's part; by default there is one sum, of the loss. A score must not depend on
  // the split into micro-batches. So a score that compares samples with each other uses
  // add_score_of_all(), called last with the answers of all samples. Both functions also run on a
  // meta device, where allocations are charged but tensors have no elements: read elements only in
  // add_on_host().
  virtual bool scores_all_at_once() const { return false; }
  virtual int64_t sums() const { return 1; }
  virtual void add_score(const Tensor& sums, const Tensor& answer, const Samples& samples) const;
  virtual void add_score_of_all(const Tensor& sums, const Tensor& answers) const;
  // The same as add_score(), of a model: by default of its answer().
  virtual void add_score_of(const Tensor& sums, const Layer& model, const Samples& samples,
                            const Pass& pass) const;
  virtual Score score(std::span<const double> sums, const Dataset& data) const;

  // Throws Error unless the data set has the objective's fields.
  void check_data(const Dataset& data) const;

 protected:
  // Adds samples * mean to sums f64 [1] on their device, without waiting for it.
  static void add_mean(const Tensor& sums, const Tensor& mean, int64_t samples);
  // Adds a value to each of the sums. values() computes them on the host from tensors on any device
  // (as_f32()). Waits for the device. On a meta device, values() is not called.
  static void add_on_host(const Tensor& sums, const std::function<std::vector<double>()>& values);
};

// An objective that several trainings may share.
using ObjectivePtr = std::shared_ptr<const Objective>;

// Classification: cross-entropy of logits [N, classes] against labels, and accuracy.
ObjectivePtr classification(std::string input = {}, std::string labels = "labels");
// Regression: the mean squared error of answers that have the targets' shape [N, ...], and its
// root.
ObjectivePtr regression(std::string input = "features", std::string targets = "targets");

namespace detail {

// Classification, for a data set with labels, in which samples count as a field `weights` says
// where there is one. Throws Error for any other, whose objective must be said.
ObjectivePtr objective_of(const Dataset& data);

}  // namespace detail

}  // namespace accrue
