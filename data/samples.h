#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/dataset.h"

namespace accrue {

// Whether an epoch has an order of its own.
enum class Shuffle { off, on };

namespace detail {

// Fills `order` with the samples of an epoch in the order of their use. It depends on (N, seed,
// epoch) alone, N = order.size(), so that no split into micro-batches and no resumption changes it.
void epoch_order(std::span<int32_t> order, uint64_t seed, int64_t epoch, Shuffle shuffle);

}  // namespace detail

// Some samples of a data set side by side, field by field, encoded for a model.
struct Samples {
  struct Field {
    std::string name;
    Tensor values;  // [n, ...]
  };
  std::vector<Field> fields;

  int64_t size() const { return fields.front().values.size(0); }
  bool has(std::string_view field) const;
  // Throws Error if this is none of the fields.
  const Tensor& operator[](std::string_view field) const;
  Samples slice(int64_t begin, int64_t end) const;
};

// The samples that a window takes at a time.
struct MicroBatch : Samples {
  Tensor indices;           // i32 [n]: the numbers of these samples in the data set
  int64_t window_size = 0;  // samples in the window that this is a part of, of all ranks
  bool ends_window = false;
};

namespace detail {

// Uninitialised tensors for n samples of the data set (Category::data).
Samples empty_samples(const Dataset& dataset, int64_t n, DType dtype, Device device);

// The data set's fields for n samples, in its stored types and uninitialised (Category::data).
Dataset empty_rows(const Dataset& dataset, int64_t n, Device device);
// Bytes of a sample as the data set stores it.
size_t bytes_of_sample(const Dataset& dataset);
// Row n of values [N, ...], on the cpu.
std::span<std::byte> row_of(const Tensor& values, int64_t n);
// The elements of a row.
template <class T>
std::span<T> elements_of(std::span<std::byte> row) {
  return {reinterpret_cast<T*>(row.data()), row.size() / sizeof(T)};
}
// Copies or reads a sample's elements, or those of its crop, into `row`. Throws Error as the
// field's read does.
void read_row(std::span<std::byte> row, const Field& field, int64_t sample, CropPlace place = {});

}  // namespace detail

// Makes sample k of `out` sample samples[k] of the data set, in tensors that exist. Throws Error
// when a sample or one of its indices is out of range. A streamed data set is read sample by
// sample.
void gather(Samples& out, const Dataset& dataset, std::span<const int32_t> samples);

namespace detail {

// The fields of a data set beside those of its samples, in the same order, for gather_samples().
std::vector<FieldViews> views_of(const Samples& out, const Dataset& dataset);

}  // namespace detail

// Returns these samples of a data set on the cpu, in new tensors (Category::data).
Samples gather(const Dataset& dataset, std::span<const int32_t> samples, DType dtype = DType::f32);
// Returns samples [begin, end) of the data set in its own order, in new tensors (Category::data).
Samples gather(const Dataset& dataset, int64_t begin, int64_t end, DType dtype = DType::f32);

}  // namespace accrue
