#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "onnx/reader/conversion.h"

namespace accrue::detail {

// Calculates nodes whose inputs are constants. Sizes and indices that files calculate, such as the
// shape of a Reshape, become numbers before there are samples. Each is calculated for two numbers
// of samples (rehearsed_samples).

bool can_fold(const OnnxNode& node);

// The outputs of a node on these inputs, of which null is left out. Throws Error for what the op
// does not take.
std::vector<std::shared_ptr<const OnnxConstant>> fold(
    const OnnxNode& node, const std::vector<std::shared_ptr<const OnnxConstant>>& inputs,
    int64_t opset);

// The sizes of a value, as a Shape node gives them.
std::shared_ptr<const OnnxConstant> shape_constant(const OnnxNode& node, const ValueSizes& sizes);

}  // namespace accrue::detail
