#include "data/dataset.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "core/inside.h"

namespace accrue {
bool Dataset::has(std::string_view field) const {
  return std::ranges::find(fields, field, &Field::name) != fields.end();
}

const Field& Dataset::field(std::string_view field) const {
  const auto found = std::ranges::find(fields, field, &Field::name);
  if (found != fields.end()) return *found;
  std::vector<std::string> names;
  for (const Field& known : fields) names.push_back(known.name);
  fail("data set '{}' has no {}: it has {}", name, field, fmt::join(names, ", "));
}

void Dataset::check_fields() const {
  check(!fields.empty(), "data set '{}' has no fields: expected the fields of a sample", name);
  for (const Field& field : fields)
    check(field.values.defined() && field.values.shape().rank() > 0 &&
              stores(field.encoding, field.values.dtype()) && field.values.size(0) == size() &&
              field.values.device() == device(),
          "data set '{}': {} are {} {}, expected {} of {} samples, on the device of {}", name,
          field.name, accrue::name(field.values.dtype()), field.values.shape(),
          accrue::name(stored_dtype(field.encoding)), size(), fields.front().name);
}

void Dataset::check_pixels(std::string_view what) const {
  const auto has_pixels = [](const Field& field) {
    return field.encoding == Encoding::pixel && field.values.shape().rank() == 4;
  };
  if (fields.empty() || std::ranges::any_of(fields, has_pixels)) return;
  const Field& seen = fields.front();
  fail(
      "{} acts on pixels, but the {} of data set '{}' are {} {}: expected u8 [N, C, H, W] from 0 "
      "to 255, or not to use it",
      what, seen.name, name, accrue::name(seen.values.dtype()), seen.values.shape());
}

Shape Field::shape_of(int64_t n) const {
  const Shape all = values.shape().with(0, n);
  return crop ? all.with(2, crop->height).with(3, crop->width) : all;
}

void Dataset::crop_to(ImageSize size) {
  if (fields.empty()) return;
  check(std::ranges::any_of(fields, [](const Field& f) { return f.values.shape().rank() == 4; }),
        "a crop of {}x{} from data set '{}', whose {} are {}: expected images [N, C, H, W]",
        size.height, size.width, name, fields.front().name, fields.front().values.shape());
  for (Field& field : fields) {
    const Shape& shape = field.values.shape();
    if (shape.rank() != 4) continue;
    check(
        size.height <= shape[2] && size.width <= shape[3],
        "a crop of {}x{} from the {} of data set '{}', which are {}x{}: expected a crop no larger",
        size.height, size.width, field.name, name, shape[2], shape[3]);
    field.crop = size;
  }
}

std::string Field::class_name(int64_t k) const {
  const auto i = static_cast<size_t>(k);
  if (!class_names.empty()) return class_names.at(i);
  return fmt::format("{}", class_values.empty() ? k : int64_t{class_values.at(i)});
}

std::string Dataset::sample_name(int64_t n, int digits) const {
  return names.empty() ? fmt::format("{:0{}}", n, digits) : names.at(static_cast<size_t>(n));
}

bool Dataset::is_streamed() const {
  return augmentation ||
         std::ranges::any_of(fields, [](const Field& field) { return field.read || field.crop; });
}

Dataset Dataset::to(Device device) const {
  if (is_streamed()) device = is_meta(device) ? Device::meta : Device::cpu;
  Dataset copy = *this;
  for (Field& field : copy.fields) {
    Tensor& values = field.values;
    if (values.device() == device) continue;
    values = field.read ? Tensor::without_elements(values.shape(), values.dtype(), device)
                        : values.to(device);
  }
  return copy;
}

size_t Dataset::bytes() const {
  size_t sum = 0;
  for (const Field& field : fields)
    if (!field.read) sum += field.values.bytes();
  return sum;
}

}  // namespace accrue
