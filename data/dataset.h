#pragma once

#include <filesystem>
#include <string>

#include "core/tensor.h"

namespace accrue {

enum class Split { train, test };

// Images with one label each, as bytes: they become floats a micro-batch at a time.
struct Dataset {
  std::string name;
  std::string source;  // the directory it was read from, or how it was made
  Tensor images;       // u8 [N, C, H, W], Category::data
  Tensor labels;       // i32 [N], each in [0, classes), Category::data
  int64_t classes = 0;

  int64_t size() const { return labels.size(0); }
};

// The data sets that have a name: mnist, fashion, digits. Anything else is a directory.
// Finds and reads one split:
//   digits: generated (data/digits.h), nothing is searched;
//   mnist, fashion: from data_dir/NAME or data_dir itself, or, if data_dir is empty, from NAME
//   under
//     ./data or ~/.cache/accrue, where NAME is also fashion-mnist or torchvision's spelling;
//   a directory: from there.
// Throws Error with the list of places searched, and what load_mnist() throws.
Dataset find_dataset(const std::string& name, const std::filesystem::path& data_dir, Split split);

// MNIST or a set in its format (Fashion-MNIST, KMNIST) from a directory with
// train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte;
// also spelt train-images.idx3-ubyte, and with .gz. 10 classes. Throws Error when a file is missing
// or bad, or when images and labels differ in number.
Dataset load_mnist(const std::filesystem::path& directory, Split split);

// The same data set on Device::meta: the ledger is charged the same, nothing is stored.
Dataset on_meta(const Dataset& dataset);

}  // namespace accrue
