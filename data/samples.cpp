#include "data/samples.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "core/random.h"
#include "kernels/judged.h"

namespace accrue {
namespace {

// A key of its own keeps the shuffle's random numbers independent of other uses of the seed.
constexpr uint64_t order_stream = uint64_t{0x6f72} << 48;

void check_indices(const Field& field, const std::string& dataset,
                   std::span<const int32_t> samples) {
  const auto all = field.values.span<int32_t>();
  const int64_t size = field.values.numel() / field.values.size(0);
  const bool has_not_judged = field.unjudged_value || field.has_not_judged;
  for (const int32_t i : samples)
    for (const int32_t index :
         all.subspan(static_cast<size_t>(i * size), static_cast<size_t>(size)))
      check((0 <= index && index < field.classes) || (index == not_judged && has_not_judged),
            "data set '{}': sample {} has {} in its {}, expected 0 to {}", dataset, i, index,
            field.name, field.classes - 1);
}

}  // namespace

void detail::epoch_order(std::span<int32_t> order, uint64_t seed, int64_t epoch, Shuffle shuffle) {
  std::iota(order.begin(), order.end(), 0);
  if (shuffle == Shuffle::off) return;
  RandomStream random(seed, order_stream + static_cast<uint64_t>(epoch));
  for (size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[random.below(static_cast<uint32_t>(i))]);
}

bool Samples::has(std::string_view field) const {
  return std::ranges::find(fields, field, &Field::name) != fields.end();
}

const Tensor& Samples::operator[](std::string_view name) const {
  for (const Field& field : fields)
    if (field.name == name) return field.values;
  std::vector<std::string> names;
  for (const Field& field : fields) names.push_back(field.name);
  fail("these samples have no {}: they have {}", name, fmt::join(names, ", "));
}

Samples Samples::slice(int64_t begin, int64_t end) const {
  Samples part;
  part.fields.reserve(fields.size());
  for (const Field& field : fields)
    part.fields.push_back({field.name, field.values.slice(begin, end)});
  return part;
}

Samples detail::empty_samples(const Dataset& dataset, int64_t n, DType dtype, Device device) {
  const MemoryScope scope("micro-batch");
  Samples samples;
  for (const auto& field : dataset.fields)
    samples.fields.push_back(
        {field.name, Tensor::empty(field.shape_of(n), encoded_dtype(field.encoding, dtype), device,
                                   Category::data)});
  return samples;
}

void detail::mark_overwritten(const Samples& samples) {
  for (const auto& field : samples.fields) field.values.mark_overwritten();
}

Dataset detail::empty_rows(const Dataset& dataset, int64_t n, Device device) {
  Dataset rows{dataset.name, dataset.source, dataset.fields};
  for (Field& field : rows.fields) {
    field.read = nullptr;
    field.values = Tensor::empty(field.shape_of(n), field.values.dtype(), device, Category::data);
    field.crop.reset();
  }
  return rows;
}

size_t detail::bytes_of_sample(const Dataset& dataset) {
  size_t bytes = 0;
  for (const Field& field : dataset.fields)
    bytes += static_cast<size_t>(field.shape_of(1).numel()) * size_of(field.values.dtype());
  return bytes;
}

std::span<std::byte> detail::row_of(const Tensor& values, int64_t n) {
  const size_t bytes = values.bytes() / static_cast<size_t>(values.size(0));
  return values.host_bytes().subspan(static_cast<size_t>(n) * bytes, bytes);
}

namespace {

// Copies a crop of an image [C, H, W] of the field.
void copy_crop(std::span<std::byte> row, std::span<const std::byte> image, const Field& field,
               CropPlace place) {
  const Shape &from = field.values.shape(), to = field.shape_of(1);
  const auto begin_of = [](int64_t room, double part) {
    return std::min(static_cast<int64_t>(part * double(room + 1)), room);
  };
  const int64_t top = begin_of(from[2] - to[2], place.down),
                left = begin_of(from[3] - to[3], place.across);
  const auto element = static_cast<int64_t>(size_of(field.values.dtype()));
  std::byte* out = row.data();
  for (int64_t c = 0; c < to[1]; ++c)
    for (int64_t y = 0; y < to[2]; ++y)
      out = std::copy_n(image.data() + ((c * from[2] + top + y) * from[3] + left) * element,
                        to[3] * element, out);
}

}  // namespace

void detail::read_row(std::span<std::byte> row, const Field& field, int64_t sample,
                      CropPlace place) {
  if (field.crop) {
    if (!field.read) return copy_crop(row, row_of(field.values, sample), field, place);
    std::vector<std::byte> image;
    image.resize(field.values.bytes() / static_cast<size_t>(field.values.size(0)));
    field.read(image, sample);
    return copy_crop(row, image, field, place);
  }
  if (field.read) field.read(row, sample);
  else std::ranges::copy(row_of(field.values, sample), row.begin());
}

std::vector<FieldViews> detail::views_of(const Samples& out, const Dataset& dataset) {
  std::vector<FieldViews> views;
  for (size_t f = 0; f < out.fields.size(); ++f)
    views.push_back({dataset.fields[f].encoding, out.fields[f].values.view(),
                     dataset.fields[f].values.view(), dataset.fields[f].normalization});
  return views;
}

namespace {

void gather_read(Samples& out, const Dataset& dataset, std::span<const int32_t> samples) {
  const auto n = static_cast<int64_t>(samples.size());
  const Dataset rows = empty_rows(dataset, n, Device::cpu);
  for (int64_t k = 0; k < n; ++k)
    for (size_t f = 0; f < rows.fields.size(); ++f)
      read_row(row_of(rows.fields[f].values, k), dataset.fields[f],
               samples[static_cast<size_t>(k)]);
  std::vector<int32_t> counting(samples.size());
  std::iota(counting.begin(), counting.end(), 0);
  gather(out, rows, counting);
}

}  // namespace

void gather(Samples& out, const Dataset& dataset, std::span<const int32_t> samples) {
  const int64_t N = dataset.size(), n = static_cast<int64_t>(samples.size());
  check(n <= out.size(), "{} samples do not fit {}", n, out.fields.front().values.shape());
  for (const int32_t i : samples)
    check(0 <= i && i < N, "sample {} is not in data set '{}' of {} samples", i, dataset.name, N);
  for (const Field& field : dataset.fields)
    if (field.encoding == Encoding::index && !field.read)
      check_indices(field, dataset.name, samples);
  if (dataset.is_streamed()) return gather_read(out, dataset, samples);
  const View index{const_cast<int32_t*>(samples.data()), {n}, DType::i32, Device::cpu};
  gather_samples(views_of(out.slice(0, n), dataset), View{}, index);
}

Samples gather(const Dataset& dataset, std::span<const int32_t> samples, DType dtype) {
  Samples out = empty_samples(dataset, static_cast<int64_t>(samples.size()), dtype, Device::cpu);
  gather(out, dataset, samples);
  return out;
}

Samples gather(const Dataset& dataset, int64_t begin, int64_t end, DType dtype) {
  check(0 <= begin && begin <= end && end <= dataset.size(),
        "samples [{}, {}) are not within the {} of data set '{}'", begin, end, dataset.size(),
        dataset.name);
  const Device device = dataset.device();
  Samples out = empty_samples(dataset, end - begin, dtype, device);
  if (is_meta(device)) return out;
  std::vector<int32_t> samples(static_cast<size_t>(end - begin));
  std::iota(samples.begin(), samples.end(), static_cast<int32_t>(begin));
  gather(out, dataset, samples);
  return out;
}

}  // namespace accrue
