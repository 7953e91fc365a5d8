#pragma once

#include <string>

#include "train/settings.h"

namespace accrue::app {

// `accrue data check DIR`: reads every file of a folder of images (images/image_folder.h), or of
// IDX or CIFAR-10's files (images/packed_images.h), says what there is of each class, and lists the
// bad files. Throws Error, after that, if there are any.
struct DataCheckOptions {
  std::string directory, sheet, augment;
  std::optional<double> hold_out;
};
Settings settings_of(DataCheckOptions& asked);
void check_data(const DataCheckOptions& asked);

}  // namespace accrue::app
