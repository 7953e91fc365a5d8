#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "layers/graph.h"

namespace accrue::detail {

// Sizes of values of a Graph that is being described, before there are tensors.

// A tensor's sizes, which may be multiples of the number of samples, and its type.
struct ValueSizes {
  Extents shape{};
  DType dtype = DType::f32;  // f32 for any floating type, or i32

  Shape of(int64_t samples) const;
};
// "[N, 3, 32, 32]"
std::string to_string(const ValueSizes& sizes);

// Calls are run for these two numbers of samples to know sizes.
inline constexpr std::array<int64_t, 2> rehearsed_samples{5, 8};

// The size that is the first for rehearsed_samples[0], and the second for rehearsed_samples[1].
// Nothing if it is neither a number nor a multiple of the samples.
std::optional<Extent> extent_of(int64_t first, int64_t second);

// The sizes of the results of a call on operands of these sizes, of which an operand that is left
// out is null. Runs it on the meta device for two numbers of samples. Throws Error for sizes that
// do not fit, and for results whose sizes are no multiples of the samples.
std::vector<ValueSizes> sizes_of_results(const GraphOp& op,
                                         const std::vector<const ValueSizes*>& operands,
                                         const Graph::Attributes& attributes);
ValueSizes sizes_of_result(const ModelFactory& layer, const ValueSizes& operand);

}  // namespace accrue::detail
