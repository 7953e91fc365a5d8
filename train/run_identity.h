#pragma once

#include "data/dataset.h"
#include "train/training_options.h"

namespace accrue {

// The settings that must agree for two runs to be the same, as text by name.

// The settings of a table that decide the result; "none" for one that is not set.
Metadata deciding(const Settings& settings);

// The settings that decide the result beyond rounding, including the data, by its content, and the
// names of its classes. A run that differs in one of them is another run. With `scored`, the data
// whose scores stop the run or choose its best checkpoint is part of it, as identity_of_scores.
Metadata run_identity(const TrainingOptions& options, const Dataset& data,
                      const Dataset* scored = nullptr);
inline constexpr const char* identity_of_scores = "test data";
// The settings that only decide in which order sums are rounded. The ways to see a window add up
// the same sums in the same order, unless an answer takes several forwards of the network: those of
// a window that is kept go side by side, those of one that is walked one after the other.
Metadata rounding_identity(const TrainingOptions& options, const Objective& objective,
                           Device device);

// The identity in a checkpoint, as run_identity() would say it today: earlier versions named the
// data's directory, the initial weights, which do not decide how a run goes on, and the images'
// size, which the data's shape says; and they did not know all settings of `here`. A setting that
// was not known then is the same if it is not used here.
Metadata in_words_of(const Metadata& here, Metadata checkpoint);

// A line for each setting that differs: "lr: 0.001 in the checkpoint, 0.01 here".
std::string differences(const Metadata& checkpoint, const Metadata& here);

}  // namespace accrue
