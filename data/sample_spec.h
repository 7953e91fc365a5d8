#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/shape.h"
#include "data/safetensors.h"
#include "kernels/gather_samples.h"

namespace accrue {

struct Dataset;

namespace detail {

// The description of a sample: its fields by name, as a model sees them. A data set or a file of
// weights provides it, and a network is made for it.
struct SampleSpec {
  struct Field {
    std::string name;  // "images"
    Encoding encoding;
    Shape shape{};        // of one sample: [C, H, W]; [] for a single class, and if unknown
    int64_t classes = 0;  // of indices; of a mask, its planes
    // True if the network also sees this field, as a condition. It does not see the other fields;
    // its answers are compared with them.
    bool is_seen = false;
  };

  std::vector<Field> fields{};  // the network sees the first; the last has the classes

  const Field& input() const { return fields.front(); }
  const Field& answer() const { return fields.back(); }
  int64_t classes() const { return answer().classes; }
  // The number of classes of a condition that the network sees, if the last field is one.
  std::optional<int64_t> classes_seen() const {
    return !fields.empty() && answer().is_seen ? std::optional(classes()) : std::nullopt;
  }
  // The same fields with another shape of the first field and another number of classes.
  SampleSpec with(const Shape& input, int64_t classes) const;
  // The same fields with the shapes and classes that the data has. The data may lack the field that
  // the network answers, as texts do for next-token prediction; then the number of classes is that
  // of the indices that the network sees. Throws Error if the data lacks the field that the network
  // sees.
  SampleSpec in(const Dataset& data) const;

  // Convert to and from the metadata of weights: "image" is the shape of the first field (the first
  // networks saw images), and "classes" is the number of classes. as_said() leaves the shape empty
  // if the metadata has none, and keeps the number of classes here.
  Metadata said() const;
  SampleSpec as_said(const Metadata& metadata) const;
  static bool is_said(const Metadata& metadata);
};

}  // namespace detail

}  // namespace accrue
