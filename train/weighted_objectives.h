#pragma once

#include <map>
#include <string>
#include <vector>

#include "kernels/weighted_cross_entropy.h"
#include "train/objective.h"

namespace accrue {

// How an objective counts labels and samples.
struct ClassificationOptions {
  CrossEntropyOptions cross_entropy{};
  std::string weights{};  // the field of how much each sample counts (Encoding::weight); none: 1
  std::string input{};    // the field that the model sees; empty: the data's first
};
// For classes, as classification(), but the loss is a mean over the samples' weights, w[label] *
// s[n] of kernels/weighted_cross_entropy.h, in the whole window, and labels may be not_judged. Its
// score has the accuracy of each class, of the samples that it has, too, and their mean over the
// classes ("balanced_accuracy").
// Labels [N, T] are for answers [N, T, C], a class at each place, such as each token of a row.
// Their loss is a mean over the weights of all labels in the window, and samples have no weights.
// Throws Error unless the class weights are one for each class, or none. For labels [N, T] the loss
// throws it, and they are one for each class of the answers, of which the labels may have fewer.
ObjectivePtr classification(const Field& labels, ClassificationOptions options);

// The class weights by which all classes of the labels count alike, and a sample 1 on average, for
// N samples of which n[c] have class c, and K classes with a sample.
//   w[c] = N / (K n[c])
// It is 1 for a class without a sample, and on a meta device, where labels cannot be read.
std::vector<double> balanced_class_weights(const Field& labels);

// The losses of numbers (kernels/losses.h, kernels/weighted_losses.h). bce is for multi-label
// targets, each in [0, 1].
enum class NumberLoss { mse, l1, smooth_l1, bce };
struct RegressionOptions {
  NumberLoss loss = NumberLoss::mse;
  double beta = 1;                         // of smooth_l1
  std::vector<double> positive_weights{};  // of bce: one for each label, or none
  std::string weights{};                   // as in ClassificationOptions
  std::string input = "features";
};
// For numbers, as regression(), but with other losses, a mean over the samples' weights. The score
// is the loss, with mse its root, and with bce the part of all labels, [N, K], that are told
// rightly, and the mean of F1 over those that are told or there.
// Labels with names (Field::class_names) have an F1 each, too.
// Throws Error for settings of another loss, and for another number of positive weights than K.
ObjectivePtr regression(const Field& targets, RegressionOptions options);

namespace detail {

// The losses of numbers by their names: "mse", "l1", "smooth-l1" and "bce".
const std::map<std::string, NumberLoss>& number_losses();

}  // namespace detail

}  // namespace accrue
