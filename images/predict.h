#pragma once

#include "data/dataset.h"
#include "job/notices.h"
#include "job/request.h"

namespace accrue {

// `accrue predict` writes the answers of a network with saved weights to images, or to each sample
// of a data set. If the network answers with classes, it writes predictions.csv, with a line for
// each sample: the name, the most probable class, and the probability of each class. If it answers
// with masks, it writes PNG files (images/mask_files.h), in tiles if the user wants them
// (images/tiled_unet.h, or with an overlap images/tiled.h). Images are named by their paths within
// the folder, other samples by numbers; classes have the names in the weights' file. Throws Error
// for weights of another kind of network, and for images that the network cannot answer. Throws
// Error if an answer would replace a file that is read or, unless `force`, a file that the program
// has not written.
struct PredictOptions {
  std::string out;                  // a directory
  std::vector<std::string> images;  // files and folders, beside --data
  std::optional<Split> split;
  bool overlays = false, force = false;
  std::optional<int64_t> tile, overlap;  // pixels
};
// True if the request's model answers to images with classes or masks.
bool answers_images(const Request& options);
Settings settings_of(PredictOptions& asked, Request& options);
void predict_images(const Request& options, const PredictOptions& asked, const Notices& notices);

}  // namespace accrue
