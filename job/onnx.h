#pragma once

#include <string>

#include "job/notices.h"
#include "job/request.h"

namespace accrue::detail {

// What an exported network takes: what it was trained on, or pixels as bytes, which it normalises
// as it was trained.
enum class OnnxInput { as_trained, bytes };

// Writes the network of the weights that a request begins with as an ONNX file (train/onnx/onnx.h),
// and tells of what it takes and answers. Throws Error.
void export_onnx(const Request& request, const std::string& path, OnnxInput input,
                 const Notices& notices);

}  // namespace accrue::detail
