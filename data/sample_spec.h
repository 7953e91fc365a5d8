#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/shape.h"
#include "kernels/gather_samples.h"

namespace accrue {

struct Dataset;

// What a sample is, without any: its fields by name, as a model sees them. Data sets and files of
// weights say it, and networks are made for it.
struct SampleSpec {
  struct Field {
    std::string name;  // "images"
    Encoding encoding;
    Shape shape{};  // of one sample: [C, H, W]; of a single class, or where nobody says it, []
    int64_t classes = 0;  // to tell apart: those of indices, or a mask's planes
  };

  std::vector<Field> fields{};  // the first is what a network sees, the last has the classes

  const Field& input() const { return fields.front(); }
  const Field& answer() const { return fields.back(); }
  int64_t classes() const { return answer().classes; }
  // The same with this shape of what the network sees, and so many classes of its answer.
  SampleSpec with(const Shape& input, int64_t classes) const;
  // With the shapes and classes of those fields that the data has. Where it lacks what a network
  // answers, as texts do whose next tokens are asked for, indices that a network sees have the
  // classes. Throws Error if it lacks what a network sees.
  SampleSpec in(const Dataset& data) const;
};

}  // namespace accrue
