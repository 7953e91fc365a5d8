#pragma once

#include "images/image_folder.h"

namespace accrue {

// Finds and reads a data set of images by its name, or from a directory:
//   digits, shapes: generated (images/digits.h, images/shapes.h);
//   mnist, fashion: from the first place that has the files: data_dir/NAME, data_dir itself (both
//     unless it is empty), data/NAME, ~/.cache/accrue/NAME. NAME may also be fashion-mnist, or
//     torchvision's MNIST/raw and FashionMNIST/raw;
//   anything else is a directory: in MNIST's format, of CIFAR-10's binary files (images/cifar.h),
//     or of images (images/image_folder.h).
// Throws Error with the list of places searched, and as load_mnist(), load_cifar10() and
// load_images() do.
Datasets find_dataset(const std::string& name, const std::filesystem::path& data_dir = {},
                      const ImageFolderOptions& images = {});

namespace detail {

// True if a directory holds files in MNIST's or CIFAR-10's format, and not a folder of images.
bool holds_image_set(const std::filesystem::path& directory);

}  // namespace detail

}  // namespace accrue
