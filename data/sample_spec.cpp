#include "data/sample_spec.h"

#include <fmt/ranges.h>

#include <sstream>

#include "core/inside.h"
#include "data/dataset.h"

namespace accrue {
namespace {

constexpr const char *shape_key = "image", *classes_key = "classes";

// The numbers in a value such as "1x64x64"; empty if the metadata lacks the key.
std::vector<int64_t> numbers_of(const Metadata& said, const std::string& key) {
  std::vector<int64_t> numbers;
  const auto found = said.find(key);
  std::istringstream text(found == said.end() ? "" : found->second);
  for (int64_t number = 0; text >> number; text.ignore()) numbers.push_back(number);
  return numbers;
}

}  // namespace

SampleSpec SampleSpec::with(const Shape& input, int64_t classes) const {
  SampleSpec other = *this;
  other.fields.front().shape = input;
  other.fields.back().classes = classes;
  return other;
}

SampleSpec SampleSpec::in(const Dataset& data) const {
  SampleSpec found = *this;
  for (Field& field : found.fields) {
    if (!data.has(field.name) && field.name != input().name) continue;
    const accrue::Field& here = data.field(field.name);
    field.encoding = here.encoding;
    field.shape = Shape(here.shape_of(1).sizes().subspan(1));
    field.classes = here.class_count();
  }
  if (!data.has(answer().name) && found.input().encoding == Encoding::index)
    found.fields.back().classes = found.input().classes;
  return found;
}

Metadata SampleSpec::said() const {
  return {{shape_key, fmt::format("{}", fmt::join(input().shape.sizes(), "x"))},
          {classes_key, fmt::format("{}", classes())}};
}

SampleSpec SampleSpec::as_said(const Metadata& metadata) const {
  const auto classes = numbers_of(metadata, classes_key);
  return with(Shape(numbers_of(metadata, shape_key)),
              classes.size() == 1 ? classes[0] : answer().classes);
}

bool SampleSpec::is_said(const Metadata& metadata) {
  return metadata.contains(shape_key) && metadata.contains(classes_key);
}

}  // namespace accrue
