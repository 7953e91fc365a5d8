#pragma once

#include "core/inside.h"
#include "data/dataset.h"
#include "train/training_options.h"

namespace accrue {

// The settings that must be equal for two runs to be the same, as text by name.

// The settings of a table that decide the result. `usual` is the same table with default values.
RunIdentity deciding(const Settings& settings, const Settings& usual);

// The settings that decide the result beyond rounding, with the content of the data and the names
// of its classes. A run that differs in any of them is another run. `scored` is data whose scores
// stop the run or choose its best checkpoint; its content is part of the identity, too, as
// identity_of_scores.
RunIdentity run_identity(const TrainingOptions& options, const Dataset& data,
                         const Dataset* scored = nullptr);
inline constexpr const char* identity_of_scores = "test data";
// The settings that only decide the order in which sums are rounded. The ways to run BatchNorms
// over a window add up the same sums in the same order, unless an answer takes several forwards of
// the network. A kept window runs these forwards side by side, a walked window one after the other.
Metadata rounding_identity(const TrainingOptions& options, const Objective& objective,
                           Device device);

// A checkpoint's identity, converted for comparison with `here`. Another version of accrue may have
// recorded the data's directory, and settings that do not decide anything, such as the initial
// weights. Either side may have settings that the other does not know. A setting that is idle here
// counts as equal, whatever the checkpoint says. A setting that the checkpoint does not know counts
// as equal if it has its usual value here. A setting that is unknown here counts as equal if it was
// not set then.
Metadata in_words_of(const RunIdentity& here, Metadata checkpoint);

// A line for each setting that differs: "lr: 0.001 in the checkpoint, 0.01 here".
std::string differences(const Metadata& checkpoint, const Metadata& here);

}  // namespace accrue
