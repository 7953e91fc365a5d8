#pragma once

#include "core/inside.h"
#include "data/dataset.h"
#include "train/training_options.h"

namespace accrue {

// The settings that must agree for two runs to be the same, as text by name.

// The settings of a table that decide the result. `usual` is the same table with the values that
// are meant where nobody asks for one.
RunIdentity deciding(const Settings& settings, const Settings& usual);

// The settings that decide the result beyond rounding, including the data, by its content, and the
// names of its classes. A run that differs in one of them is another run. With `scored`, the data
// whose scores stop the run or choose its best checkpoint is part of it, as identity_of_scores.
RunIdentity run_identity(const TrainingOptions& options, const Dataset& data,
                         const Dataset* scored = nullptr);
inline constexpr const char* identity_of_scores = "test data";
// The settings that only decide in which order sums are rounded. The ways to see a window add up
// the same sums in the same order, unless an answer takes several forwards of the network: those of
// a window that is kept go side by side, those of one that is walked one after the other.
Metadata rounding_identity(const TrainingOptions& options, const Objective& objective,
                           Device device);

// The identity in a checkpoint, as run_identity() would say it here. Another version named the
// data's directory, and settings that do not decide, such as the initial weights; and it may not
// know all settings of `here`, nor `here` its. One that is idle here is the same whatever it was
// then; one that was not known then is the same if it is usual here, and one that is not known here
// if it was not set then.
Metadata in_words_of(const RunIdentity& here, Metadata checkpoint);

// A line for each setting that differs: "lr: 0.001 in the checkpoint, 0.01 here".
std::string differences(const Metadata& checkpoint, const Metadata& here);

}  // namespace accrue
