#pragma once

#include "data/dataset.h"
#include "job/notices.h"
#include "job/request.h"

namespace accrue {

// What `accrue predict` writes: what the network of saved weights answers to images, or to each
// sample of a data set. Of classes it writes predictions.csv, a line a sample: its name, the most
// probable class, and the probability of each class. Of masks it writes PNG files
// (images/mask_files.h), in tiles if that is asked for (images/tiled_unet.h, or with an overlap
// images/tiled.h). Images have their paths within the folder for names, other samples numbers;
// classes have the names that the weights' file gives them. Throws Error for weights of another
// kind of network, for images that it cannot answer to, and where an answer would replace what is
// read or, unless `force`, a file that the program has not written.
struct PredictOptions {
  std::string out;                  // a directory
  std::vector<std::string> images;  // files and folders, beside --data
  std::optional<Split> split;
  bool overlays = false, force = false;
  std::optional<int64_t> tile, overlap;  // pixels
};
Settings settings_of(PredictOptions& asked, Request& options);
void predict_images(const Request& options, const PredictOptions& asked, const Notices& notices);

}  // namespace accrue
