#pragma once

#include <string>
#include <vector>

#include "data/safetensors.h"
#include "train/domain.h"
#include "train/weighted_objectives.h"

namespace accrue::detail {

// Wishes for the cross-entropy of labels, and for the classes of masks.
struct LabelOptions {
  // One for each class, none, or `balanced` alone. The last may be `rest`: classes from there on
  // count 1.
  std::vector<double> class_weights{};
  double label_smoothing = 0;
  bool by_class = false;         // score the accuracy of each class, too, without any of them
  std::string field = "labels";  // of the data

  static constexpr double balanced = -1, rest = -2;
  bool are_balanced() const;
  // One weight for each class of these labels, which are counted where the weights are balanced, or
  // of these masks; none if none are given.
  std::vector<double> weights_of(const Field& field) const;
  // The options for these labels.
  CrossEntropyOptions on(const Field& labels) const;
  // Throws Error for balanced weights of masks, and of data that are not trained on.
  void check_data(const Dataset& data, DataUse use) const;
  // For data with labels: classification() by these options, which counts samples by a field
  // `weights` if the data has one. With by_class it gives the same loss, and a longer score.
  ObjectivePtr objective(const Dataset& data) const;
  // Balanced weights of classes as the weights' file says them: numbers; and no label-smoothing of
  // 0, which is as if there were none.
  Metadata taught_by(const Dataset& data) const;
  // "class weights cat 0.5, dog 2, by 40 labels", where they are balanced; else empty.
  std::string describe(const Dataset& data) const;
};

// The settings class-weights, label-smoothing and by-class under the table's heading, which act
// in these cases: the first with masks and labels, the others with labels.
void add_settings(Settings& settings, LabelOptions& options, const ActsWith& of_both,
                  const ActsWith& of_labels);

}  // namespace accrue::detail
