#include "data/sample_spec.h"

#include "data/dataset.h"

namespace accrue {

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

}  // namespace accrue
