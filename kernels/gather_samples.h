#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "core/tensor.h"

namespace accrue {

// The conversion of a data set's elements into a micro-batch's elements.
enum class Encoding {
  pixel,   // u8, to floating: (x / 255 - mean[c]) / std[c]
  mask,    // u8, to floating: x / 255
  number,  // f32, to floating
  index,   // i32, as it is: a class, say
  weight   // f32, as it is: how much a sample counts
};

namespace detail {

// The type of the elements in the data set; numbers may also be f64 (stores()).
constexpr DType stored_dtype(Encoding encoding) {
  switch (encoding) {
    case Encoding::number:
    case Encoding::weight: return DType::f32;
    case Encoding::index: return DType::i32;
    case Encoding::pixel:
    case Encoding::mask: break;
  }
  return DType::u8;
}
// Whether a data set may have elements of this type.
constexpr bool stores(Encoding encoding, DType dtype) {
  return dtype == stored_dtype(encoding) || (encoding == Encoding::number && dtype == DType::f64);
}
// True for elements that reach a micro-batch as they are stored, whatever its model computes in.
constexpr bool comes_as_stored(Encoding encoding) {
  return encoding == Encoding::index || encoding == Encoding::weight;
}
// The type of the elements in a micro-batch of a model that computes in `floating`.
constexpr DType encoded_dtype(Encoding encoding, DType floating) {
  return comes_as_stored(encoding) ? stored_dtype(encoding) : floating;
}

}  // namespace detail

// The mean and standard deviation for normalizing pixels: one number each, or one for each channel
// c of [N, C, ...], which may have at most most_channels. The default maps pixels to [-1, 1], as in
// PyTorch's tutorials for gray images. The factor 1 / std is computed once.
struct Normalization {
  std::vector<double> mean{0.5}, std{0.5};
  bool operator==(const Normalization&) const = default;
};

namespace detail {

inline constexpr int64_t most_channels = 4;
// Throws Error, whose text begins with `what`, unless mean and std have one number each or one for
// each channel of samples of this shape, all are finite, and every std is above 0.
void check_normalization(const Normalization& normalization, const Shape& samples,
                         std::string_view what);

// One field of the samples, such as their images: out [n, ...], all [N, ...] of a type that is
// stored.
struct FieldViews {
  Encoding encoding;
  View out, all;
  Normalization normalization{};
};
inline constexpr size_t most_fields = 6;

// Gathers samples of a data set by index, encoded for a model. For each field and k < n:
//   field.out[k, :] = encoded(field.all[index[k], :])
//   samples[k] = index[k], for dropout, in a place that stays the same, unless `samples` is empty
// index and samples are i32 [n]. All views are on one device, and all floating fields have one
// type. Several kernels gather more than most_fields. Throws Error for none, for shapes, types and
// normalizations that do not fit, and on the CPU for an index out of range. On CUDA such a sample's
// numbers are NaN, and its indices -1.
void gather_samples(std::span<const FieldViews> fields, View samples, View index);

// Gathers the next n samples of an order, for fields of n rows. It is gather_samples() with
//   index[k] = order[position[0] + k], then position[0] += n
// so that one recording (core/replay.h) serves a whole epoch. order is i32 [N], position i32 [2].
// Its second element is 0 between two calls. The caller must make sure that n samples are left.
// Throws Error for more than most_fields without `samples`, from which the later kernels read what
// the first one took.
void gather_next_samples(std::span<const FieldViews> fields, View samples, View order,
                         View position);

}  // namespace detail

}  // namespace accrue
