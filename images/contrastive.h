#pragma once

#include "train/objective.h"

namespace accrue {

// SimCLR (Chen et al. 2020, arXiv 2002.05709) compares two views of each image, which are changed
// at random. A network learns to answer the views of one image more alike than views of different
// images in the window. Let z[k], k < 2 N, be its answers, divided by their norms: z[2 i] and
// z[2 i + 1] answer the views of image i. With the temperature tau, NT-Xent is
//   L = -1/(2 N) sum_k log(exp(z[k] z[k ^ 1] / tau) / sum_{j != k} exp(z[k] z[j] / tau)).
// It is a loss of the window (train/window_loss.h). A model answers `images` and `views` with
// [n, D] each, and answer() returns both, [n, 2 D]. Answers of 16 bits are compared in float32.
// A score changes nothing at random: both views are the image, and the loss compares all samples of
// the data with each other. That loss grows with the logarithm of their number, so compare it only
// with the loss of the same data. Data with labels also get the metric `probe`, the part of the
// labels' variance that is a linear function of z:
//   1 - min_W sum_i |y[i] - W (z[i], 1)|^2 / sum_i |y[i] - mean(y)|^2,   y[i] one-hot
struct ContrastiveOptions {
  double temperature = 0.5;
  int64_t answers = 128;  // D
  int64_t classes = 0;    // of labels; 0 for data without labels
};
ObjectivePtr contrastive(const ContrastiveOptions& options = {});

namespace detail {

// Adds the field `views` to a data set: a copy of `images`. With Views::differ the data set's
// augmentation changes images and views independently of each other. Throws Error if there is then
// no augmentation.
enum class Views { differ, equal };
void add_views(Dataset& data, Views views);

}  // namespace detail

}  // namespace accrue
