#pragma once

#include <optional>
#include <string>

#include "job/notices.h"
#include "train/settings.h"

namespace accrue {

// `accrue data check DIR` reads every file of a folder of images (images/image_folder.h), or of IDX
// or CIFAR-10's files (images/packed_images.h). It reports the number of images of each class and
// lists the bad files. Throws Error after the list if there are any.
struct DataCheckOptions {
  std::string directory, sheet, augment;
  std::optional<double> hold_out;
};
Settings settings_of(DataCheckOptions& asked);
void check_images(const DataCheckOptions& asked, const Notices& notices);

}  // namespace accrue
