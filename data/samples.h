#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/dataset.h"

namespace accrue {

// Whether each epoch has its own order of samples.
enum class Shuffle { off, on };

namespace detail {

// Fills `order` with an epoch's samples in the order of their use. The order depends only on (N,
// seed, epoch), where N = order.size(), so neither the split into micro-batches nor resuming
// changes it.
void epoch_order(std::span<int32_t> order, uint64_t seed, int64_t epoch, Shuffle shuffle);

}  // namespace detail

// Some samples of a data set, field by field, encoded for a model.
struct Samples {
  struct Field {
    std::string name;
    Tensor values;  // [n, ...]
  };
  std::vector<Field> fields;

  int64_t size() const { return fields.front().values.size(0); }
  bool has(std::string_view field) const;
  // Throws Error if there is no field of this name.
  const Tensor& operator[](std::string_view field) const;
  Samples slice(int64_t begin, int64_t end) const;
};

// The samples of one micro-step of a window.
struct MicroBatch : Samples {
  Tensor indices;           // i32 [n]: the numbers of these samples in the data set
  int64_t window_size = 0;  // samples in the whole window, of all ranks
  bool ends_window = false;
};

namespace detail {

// Uninitialized tensors for n samples of the data set (Category::data).
Samples empty_samples(const Dataset& dataset, int64_t n, DType dtype, Device device);
// Tensor::mark_overwritten() for all fields.
void mark_overwritten(const Samples& samples);

// The data set's fields for n samples, in its stored types and uninitialized (Category::data).
Dataset empty_rows(const Dataset& dataset, int64_t n, Device device);
// The bytes of a sample as the data set stores it.
size_t bytes_of_sample(const Dataset& dataset);
// Row n of values [N, ...] on the cpu.
std::span<std::byte> row_of(const Tensor& values, int64_t n);
// A row as elements of type T.
template <class T>
std::span<T> elements_of(std::span<std::byte> row) {
  return {reinterpret_cast<T*>(row.data()), row.size() / sizeof(T)};
}
// Copies or reads a sample's elements, or the elements of its crop, into `row`. Throws Error as the
// field's `read` does.
void read_row(std::span<std::byte> row, const Field& field, int64_t sample, CropPlace place = {});

}  // namespace detail

// Copies sample samples[k] of the data set to sample k of `out`, whose tensors exist. Throws Error
// if a sample or one of its indices is out of range. Reads a streamed data set sample by sample.
void gather(Samples& out, const Dataset& dataset, std::span<const int32_t> samples);

namespace detail {

// Pairs the fields of a data set with the fields of `out`, in the same order, for gather_samples().
std::vector<FieldViews> views_of(const Samples& out, const Dataset& dataset);

}  // namespace detail

// Returns these samples of a data set on the cpu, in new tensors (Category::data).
Samples gather(const Dataset& dataset, std::span<const int32_t> samples, DType dtype = DType::f32);
// Returns samples [begin, end) of the data set in its own order, in new tensors (Category::data).
Samples gather(const Dataset& dataset, int64_t begin, int64_t end, DType dtype = DType::f32);

}  // namespace accrue
