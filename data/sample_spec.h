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

// What a sample is, without any: its fields by name, as a model sees them. Data sets and files of
// weights say it, and networks are made for it.
struct SampleSpec {
  struct Field {
    std::string name;  // "images"
    Encoding encoding;
    Shape shape{};  // of one sample: [C, H, W]; of a single class, or where nobody says it, []
    int64_t classes = 0;  // those of indices, or a mask's planes
    // The network sees it beside the first field, as a condition; others it answers, or is told of.
    bool is_seen = false;
  };

  std::vector<Field> fields{};  // the first is what a network sees, the last has the classes

  const Field& input() const { return fields.front(); }
  const Field& answer() const { return fields.back(); }
  int64_t classes() const { return answer().classes; }
  // The classes of a condition that the network sees, where the last field is one.
  std::optional<int64_t> classes_seen() const {
    return !fields.empty() && answer().is_seen ? std::optional(classes()) : std::nullopt;
  }
  // The same but for the shape of what the network sees, and the number of classes.
  SampleSpec with(const Shape& input, int64_t classes) const;
  // With the shapes and classes of those fields that the data has. Where it lacks what a network
  // answers, as texts do whose next tokens are asked for, indices that a network sees have the
  // classes. Throws Error if it lacks what a network sees.
  SampleSpec in(const Dataset& data) const;

  // Into and from the metadata of weights: the shape of what a network sees as "image", and its
  // classes, as the first networks' were called. What is not said there has no shape, or the
  // classes here.
  Metadata said() const;
  SampleSpec as_said(const Metadata& metadata) const;
  static bool is_said(const Metadata& metadata);
};

}  // namespace detail

}  // namespace accrue
