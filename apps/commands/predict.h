#pragma once

#include "apps/cli/options.h"
#include "data/dataset.h"

namespace accrue::app {

// `accrue predict`: what the network of saved weights answers to each sample of a data set. Of
// classes it writes predictions.csv, a line a sample: its number, the most probable class, and the
// probability of each class. Of masks it writes a PNG file a sample, named by its number: white
// where the probability is above a half.
struct PredictOptions {
  std::string out;  // a directory
  Split split = Split::test;
};
Settings settings_of(PredictOptions& asked, Options& options);
void predict(const Options& options, const PredictOptions& asked);

}  // namespace accrue::app
