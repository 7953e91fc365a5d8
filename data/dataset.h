#pragma once

#include <filesystem>
#include <string>

#include "kernels/gather_samples.h"

namespace accrue {

enum class Split { train, test };

// Images, and of each its class or the mask of what is to be found in it, as bytes: they become
// floats a micro-batch at a time.
struct Dataset {
  std::string name;
  std::string source;  // the directory it was read from, or how it was made
  Tensor images;       // u8 [N, C, H, W], Category::data
  Tensor labels;       // i32 [N], each in [0, classes), Category::data; undefined beside masks
  int64_t classes = 0;
  Tensor masks{};  // u8 [N, 1, H, W], 0 or 255, Category::data; undefined beside labels

  int64_t size() const { return images.size(0); }
  Shape image_shape() const { return {images.size(1), images.size(2), images.size(3)}; }
  // True if there are labels or masks, and as many as images.
  bool is_complete() const;
  SampleViews views() const { return {view_of(images), view_of(labels), view_of(masks)}; }
  // Returns the data set on another device (Category::data); itself if it is there. On a meta
  // device the ledger is charged the same, and nothing is stored.
  Dataset to(Device device) const;
  size_t bytes() const;
};

// How much of a built-in data set is made, and from which seed.
struct BuiltInOptions {
  int64_t train_size = 10'000;
  int64_t test_size = 2'000;
  uint64_t seed = 1;
};

struct Datasets {
  Dataset train, test;
};

// Finds and reads a data set by its name, or from a directory:
//   digits, shapes: generated (data/digits.h, data/shapes.h);
//   mnist, fashion: from the first of data_dir/NAME, data_dir itself (both unless data_dir is
//   empty),
//     data/NAME and ~/.cache/accrue/NAME, where NAME may also be fashion-mnist, or torchvision's
//     MNIST/raw and FashionMNIST/raw;
//   anything else is a directory.
// Throws Error with the list of places searched, and what load_mnist() throws.
Datasets find_dataset(const std::string& name, const std::filesystem::path& data_dir = {});

// MNIST or a set in its format (Fashion-MNIST, KMNIST) from a directory with
// train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte;
// also spelt train-images.idx3-ubyte, and with .gz. 10 classes. Throws Error when a file is missing
// or bad, or when images and labels differ in number.
Dataset load_mnist(const std::filesystem::path& directory, Split split);

}  // namespace accrue
