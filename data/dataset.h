#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/image_size.h"
#include "kernels/gather_samples.h"

namespace accrue {

// The part of the data: for training, or for scoring only.
enum class Split { train, test };

namespace detail {

// Writes the elements of a sample, of the type of its field's values, into a row. Several threads
// call it at once. Throws Error.
using ReadRow = std::function<void(std::span<std::byte> row, int64_t sample)>;

}  // namespace detail

// A property that every sample has, such as its image or its class.
struct Field {
  std::string name;  // "images"
  // [N, ...], of a type that the encoding stores(), Category::data; without elements if these are
  // read when they are needed.
  Tensor values;
  Encoding encoding;
  int64_t classes = 0;                     // of indices: each is in [0, classes)
  Normalization normalization{};           // of pixels
  std::vector<std::string> class_names{};  // if they have names; for masks, the planes' names
  // For indices: the values that stand for the classes in files, if they differ from the class
  // numbers, and the value of an unlabeled element, whose index is not_judged (kernels/judged.h).
  std::vector<uint8_t> class_values{};
  std::optional<uint8_t> unjudged_value{};
  bool has_not_judged = false;  // of indices without unjudged_value: some are not_judged
  detail::ReadRow read{};       // if set, reads elements on demand
  std::optional<detail::ImageSize> crop{};  // of images: the size of the part that a model sees

  // [n, ...] for n samples as a model sees them.
  Shape shape_of(int64_t n) const;
  // The number of classes to distinguish: the classes of indices, or the planes of a mask.
  int64_t class_count() const {
    return encoding == Encoding::mask && values.defined() ? values.size(1) : classes;
  }
  // A class's name; if it has none, its value in files, or else its number.
  std::string class_name(int64_t k) const;
};

namespace detail {

// The position of a crop in an image, as a fraction of the free room: 0 at the left or top, 1 at
// the right or bottom.
struct CropPlace {
  double across = 0.5, down = 0.5;
};

// The changes to one sample. First `place` crops it, then `apply` changes the row of each of its
// fields. A row has the shape of the field's values.
struct SampleChange {
  CropPlace place{};
  std::function<void(std::span<std::byte> row, const Field& field)> apply{};
};
// Draws the changes to a sample, from these arguments alone. Several threads call it at once.
using DrawChange = std::function<SampleChange(uint64_t seed, int64_t epoch, int64_t sample)>;

}  // namespace detail

// Samples that all have the same fields. An objective says which fields it reads
// (train/objective.h). The data sets of this library have these fields:
//   images, labels, masks     pixels [N, C, H, W], indices [N], masks [N, 1, H, W]
//   sources, targets, styles  of drawings: pixels [N, 1, S, S] twice, and indices [N].
struct Dataset {
  std::string name;
  std::string source;  // the directory it was read from, or how it was made
  std::vector<Field> fields{};
  std::string about{};               // a line about the data that was found, or empty
  std::vector<std::string> names{};  // of the samples, such as their files' names; or empty
  bool is_trained_on = false;        // for data to score: they are the samples of the training
  // The metadata that it adds to the weights of a network that learns from it, such as how a file's
  // numbers became its own.
  std::map<std::string, std::string> taught{};
  // The changes that a loader with Augment::yes makes; null if there are none.
  detail::DrawChange augmentation{};
  // The checksum of its files, if it replaces the checksum of its elements.
  std::function<uint32_t()> checksum{};

  int64_t size() const { return fields.empty() ? 0 : fields.front().values.size(0); }
  bool has(std::string_view field) const;
  // These throw Error, listing the existing fields, if there is no field of this name.
  const Field& field(std::string_view field) const;
  const Tensor& operator[](std::string_view name) const { return field(name).values; }
  // For changes that act on pixels only: throws Error, whose text begins with `what`, if the data
  // set has fields but none of pixels [N, C, H, W].
  void check_pixels(std::string_view what) const;
  // A sample's name; if it has none, its number with at least `digits` digits.
  std::string sample_name(int64_t n, int digits = 1) const;
  // Throws Error if there are no fields, if a field's type is not its encoding's, or if the fields
  // differ in their number of samples.
  void check_fields() const;
  // Crops all images and masks [N, C, H, W] to this size. In training (Augment::yes) the
  // augmentation chooses the place, otherwise it is the middle. Throws Error if there are no images
  // or masks, or if they are smaller.
  void crop_to(detail::ImageSize size);
  // True if samples pass through a RowStream (data/row_stream.h): because a field is read on
  // demand, or because the samples are augmented or cropped.
  bool is_streamed() const;
  // Returns the data set on another device (Category::data), or itself if it is there already. On a
  // meta device this charges the same bytes to the ledger and stores nothing. A streamed data set
  // stays on the host.
  Dataset to(Device device) const;
  // The device of the fields; the cpu if there are none.
  Device device() const { return fields.empty() ? Device::cpu : fields.front().values.device(); }
  // The bytes of its fields in memory.
  size_t bytes() const;
};

// The size and seed of a built-in data set.
struct BuiltInOptions {
  int64_t train_size = 10'000;
  int64_t test_size = 2'000;
  uint64_t seed = 1;
};

// The two parts of a data set.
struct Datasets {
  Dataset train, test;
};

namespace detail {

// "1 class", "2 classes"
inline std::string counted_classes(int64_t number) {
  return fmt::format("{} class{}", number, number == 1 ? "" : "es");
}

}  // namespace detail

}  // namespace accrue
