#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/augmentation.h"
#include "data/image_file.h"
#include "kernels/gather_samples.h"

namespace accrue {

enum class Split { train, test };

// Writes the elements of a sample, of the encoding's stored_dtype(), into a row. Several threads
// call it at once. Throws Error.
using ReadRow = std::function<void(std::span<std::byte> row, int64_t sample)>;

// A property that every sample has, such as its image or its class.
struct Field {
  std::string name;  // "images"
  // [N, ...], of the encoding's stored_dtype(), Category::data; without elements if these are read
  // when they are needed.
  Tensor values;
  Encoding encoding;
  int64_t classes = 0;                     // of indices: each is in [0, classes)
  Normalization normalization{};           // of pixels
  std::vector<std::string> class_names{};  // if they have names; of masks, also of planes
  std::vector<uint8_t> class_values{};     // of masks' indices: the values for them in files
  // For masks' indices: the value that files have for pixels that nobody has judged. Their index is
  // not_judged (kernels/judged.h).
  std::optional<uint8_t> unjudged_value{};
  ReadRow read{};                   // if they are read when they are needed
  std::optional<ImageSize> crop{};  // of images: a model sees a part of this size

  // [n, ...] for n samples as a model sees them.
  Shape shape_of(int64_t n) const;
  // The number of classes to tell apart: those of indices, or a mask's planes.
  int64_t class_count() const {
    return encoding == Encoding::mask && values.defined() ? values.size(1) : classes;
  }
  // A class's name; without names its value in files, or else its number.
  std::string class_name(int64_t k) const;
};

// Samples that all have the same fields. In the data sets here these are `images` (pixels
// [N, C, H, W]), `labels` (indices [N]) and `masks` (masks [N, 1, H, W]), and of drawings
// `sources`, `targets` (pixels [N, 1, S, S]) and `styles` (indices [N]); an objective says which
// fields it reads (train/objective.h).
struct Dataset {
  std::string name;
  std::string source;  // the directory it was read from, or how it was made
  std::vector<Field> fields{};
  std::string about{};               // what was found, in a line; empty if nothing
  std::vector<std::string> names{};  // of the samples, if they have names, such as their files'
  // A loader with Augment::yes applies it.
  Augmentation augmentation{};
  // The checksum of the files it is made of, if that replaces the checksum of its elements.
  std::function<uint32_t()> checksum{};

  int64_t size() const { return fields.empty() ? 0 : fields.front().values.size(0); }
  bool has(std::string_view field) const;
  // These throw Error, listing the fields that exist, if there is none of this name.
  const Field& field(std::string_view field) const;
  const Tensor& operator[](std::string_view name) const { return field(name).values; }
  // A sample's name; without names its number, with at least so many digits.
  std::string sample_name(int64_t n, int digits = 1) const;
  // Throws Error unless there are fields, all with the types of their encodings and the same number
  // of samples.
  void check_fields() const;
  // Makes crops of this size of all images and masks [N, C, H, W]: in training (Augment::yes) where
  // the augmentation says, otherwise the images' middle. Throws Error if they are smaller.
  void crop_to(ImageSize size);
  // True if its samples pass through a RowStream (data/row_stream.h), because the elements of a
  // field are read when they are needed, or because it is augmented or cropped.
  bool is_streamed() const;
  // Returns the data set on another device (Category::data), or itself if it is there already. On a
  // meta device this charges the ledger the same bytes and stores nothing. A streamed data set
  // stays on the host.
  Dataset to(Device device) const;
  // The device of the fields; the cpu if there are none.
  Device device() const { return fields.empty() ? Device::cpu : fields.front().values.device(); }
  // The bytes that are held.
  size_t bytes() const;
};

// The size and seed of a built-in data set.
struct BuiltInOptions {
  int64_t train_size = 10'000;
  int64_t test_size = 2'000;
  uint64_t seed = 1;
  int64_t side = 64;  // of strokes: 32, 64, 128 or 256 pixels
};

struct Datasets {
  Dataset train, test;
};

// "1 class", "2 classes"
inline std::string counted_classes(int64_t number) {
  return fmt::format("{} class{}", number, number == 1 ? "" : "es");
}

// Says if samples whose files are damaged or do not fit each other are left out.
enum class SkipBad { no, yes };

inline constexpr double usual_hold_out = 0.1;
// Says if a data set may have one class only, which can be scored and answered, but not learned.
enum class OneClass { refused, allowed };

// Options for making a data set of a folder of images (data/image_folder.h).
struct ImageFolderOptions {
  std::optional<ImageSize> size{};  // that images are resized to; without it all have one
  // The share for the test of a folder that has no split; usual_hold_out if it is not set. For one
  // that has, it must not be set.
  std::optional<double> hold_out{};
  int64_t channels = 1;  // at least; gray images are of any number
  SkipBad skip_bad = SkipBad::no;
  // The value in masks of pixels that nobody has judged. With it each pixel has one class, even if
  // the others have no more than two values.
  std::optional<int64_t> unjudged_mask_value{};
  // Each value in masks is meant as a class, however few pixels have it.
  bool has_named_mask_values = false;
  OneClass one_class = OneClass::refused;
  // The most bytes of decoded images, of both splits, that are held; if there are more, all are
  // read when needed.
  size_t most_held_bytes = std::numeric_limits<size_t>::max();
  size_t most_image_bytes = usual_most_image_bytes;  // of one image, decoded; a larger one is bad
};

// Finds and reads a data set by its name, or from a directory:
//   digits, shapes: generated (data/digits.h, data/shapes.h);
//   strokes: generated with `side` (data/strokes.h), 2000 samples to train and 200 to test;
//   mnist, fashion: from the first that exists of data_dir/NAME and data_dir itself (unless it is
//     empty), data/NAME and ~/.cache/accrue/NAME, where NAME may also be fashion-mnist, or
//     torchvision's MNIST/raw and FashionMNIST/raw;
//   anything else is a directory: of glyphs (data/glyphs.h), in MNIST's format, CIFAR-10's binary
//   files (data/cifar.h), or of images (data/image_folder.h).
// Throws Error with the list of places searched, and what load_mnist(), load_glyphs(),
// load_cifar10() and load_images() throw.
Datasets find_dataset(const std::string& name, const std::filesystem::path& data_dir = {},
                      int64_t side = 64, const ImageFolderOptions& images = {});

// The directory in which find_dataset() finds mnist or fashion; nothing for another name, or if it
// is in none.
std::optional<std::filesystem::path> find_mnist(const std::string& name,
                                                const std::filesystem::path& data_dir = {});

// True if there is a file by the name of MNIST's training images.
bool holds_mnist(const std::filesystem::path& directory);

// One of the four files of MNIST: `what` is images or labels. Throws Error, with the names that it
// may have, if there is none, or if there are several sets.
std::filesystem::path find_mnist_file(const std::filesystem::path& directory, Split split,
                                      const std::string& what);

// MNIST or a set in its format (Fashion-MNIST, KMNIST, EMNIST) from a directory with
// train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte;
// also spelt train-images.idx3-ubyte, with .gz, with test for t10k, and all with one beginning
// (emnist-letters-train-images-idx3-ubyte). The labels of both splits say how many classes there
// are: they count from 0, or from 1 if no label is 0; then the classes have the labels for names.
// Throws Error when a file is missing or bad, when images and labels differ in number, and when
// most of more than ten classes do not occur, as in damaged files.
Dataset load_mnist(const std::filesystem::path& directory, Split split);

}  // namespace accrue
