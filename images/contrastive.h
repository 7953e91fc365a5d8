#pragma once

#include "train/objective.h"

namespace accrue {

// SimCLR (Chen et al. 2020, arXiv 2002.05709): two views of each image, changed at random, are to
// be nearer to each other than to those of all other images of the window. With z[k], k < 2 N, the
// network's answers to the views 2 i and 2 i + 1 of image i, divided by their norms, and tau the
// temperature, NT-Xent is
//   L = -1/(2 N) sum_k log(exp(z[k] z[k ^ 1] / tau) / sum_{j != k} exp(z[k] z[j] / tau))
// It is of the window (train/window_loss.h). A model answers `images` and `views` with [n, D] each,
// and answer() gives both, [n, 2 D].
// Answers of 16 bits are compared in float32.
// In a score, where nothing is changed at random, both views are the image, and the loss compares
// all samples of the data with each other: it grows with the logarithm of their number, and is to
// be compared with that of the same data alone. What counts there is `probe`, if the data has
// labels: the part of their variance that is a linear function of z,
//   1 - min_W sum_i |y[i] - W (z[i], 1)|^2 / sum_i |y[i] - mean(y)|^2,   y[i] one-hot
struct ContrastiveOptions {
  double temperature = 0.5;
  int64_t answers = 128;  // D
  int64_t classes = 0;    // of labels, if the data has some
};
ObjectivePtr contrastive(const ContrastiveOptions& options = {});

namespace detail {

// Adds the field `views` to a data set with `images`: the same, each changed on its own by the data
// set's augmentation. Throws Error if they are to differ and there is none.
enum class Views { differ, equal };
void add_views(Dataset& data, Views views);

}  // namespace detail

}  // namespace accrue
