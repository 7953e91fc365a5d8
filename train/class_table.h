#pragma once

#include <string>

#include "data/dataset.h"

namespace accrue {

// The table of a classifier's answers as CSV (RFC 4180): "sample,class", then a column with the
// probability of each class.
inline constexpr const char* class_table_begin = "sample,class";
std::string class_table_heading(const Field& labels);
// A line for each of the samples [begin, begin + N): its name, its most probable class, and the
// softmax of its logits [N, C]. The logits may have any floating dtype and lie on any device.
std::string class_table_lines(const Tensor& logits, int64_t begin, const Dataset& data,
                              const Field& labels);

}  // namespace accrue
