#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/image_size.h"
#include "kernels/gather_samples.h"

namespace accrue {

// The part of the data that is trained on, or that is only scored.
enum class Split { train, test };

namespace detail {

// Writes the elements of a sample, of the encoding's stored_dtype(), into a row. Several threads
// call it at once. Throws Error.
using ReadRow = std::function<void(std::span<std::byte> row, int64_t sample)>;

}  // namespace detail

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
  // The values in files that stand for each class of indices, if these are not their numbers, and
  // for what nobody has judged, whose index is not_judged (kernels/judged.h).
  std::vector<uint8_t> class_values{};
  std::optional<uint8_t> unjudged_value{};
  bool has_not_judged = false;  // of indices without such a value: some are not_judged, too
  detail::ReadRow read{};       // if they are read when they are needed
  std::optional<detail::ImageSize> crop{};  // of images: a model sees a part of this size

  // [n, ...] for n samples as a model sees them.
  Shape shape_of(int64_t n) const;
  // The number of classes to tell apart: those of indices, or a mask's planes.
  int64_t class_count() const {
    return encoding == Encoding::mask && values.defined() ? values.size(1) : classes;
  }
  // A class's name; without names its value in files, or else its number.
  std::string class_name(int64_t k) const;
};

namespace detail {

// Where in an image a crop of it lies, as a part of the room that it has: 0 at the left or at the
// top, 1 at the other side.
struct CropPlace {
  double across = 0.5, down = 0.5;
};

// The changes to one sample: where it is cropped, and then what happens to the row of each of its
// fields, which has the shape of the field's values.
struct SampleChange {
  CropPlace place{};
  std::function<void(std::span<std::byte> row, const Field& field)> apply{};
};
// Draws the changes to a sample, by these arguments alone. Several threads call it at once.
using DrawChange = std::function<SampleChange(uint64_t seed, int64_t epoch, int64_t sample)>;

}  // namespace detail

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
  bool is_trained_on = false;        // of data to be scored: they are the training's own samples
  // The changes that a loader with Augment::yes makes; null if there are none.
  detail::DrawChange augmentation{};
  // The checksum of the files it is made of, if that replaces the checksum of its elements.
  std::function<uint32_t()> checksum{};

  int64_t size() const { return fields.empty() ? 0 : fields.front().values.size(0); }
  bool has(std::string_view field) const;
  // These throw Error, listing the fields that exist, if there is none of this name.
  const Field& field(std::string_view field) const;
  const Tensor& operator[](std::string_view name) const { return field(name).values; }
  // Throws Error, whose text begins with `what`, if there are fields, but none of pixels
  // [N, C, H, W], for changes that act on no others.
  void check_pixels(std::string_view what) const;
  // A sample's name; without names its number, with at least so many digits.
  std::string sample_name(int64_t n, int digits = 1) const;
  // Throws Error unless there are fields, all with the types of their encodings and the same number
  // of samples.
  void check_fields() const;
  // Makes crops of this size of all images and masks [N, C, H, W]: in training (Augment::yes) where
  // the augmentation says, otherwise the images' middle. Throws Error if they are smaller, and if
  // there are none.
  void crop_to(detail::ImageSize size);
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
