#pragma once

#include <string>

#include "job/notices.h"
#include "job/request.h"

namespace accrue::detail {

// The input of an exported network: values as in its training, or pixels as bytes, which the ONNX
// graph normalizes as the training did.
enum class OnnxInput { as_trained, bytes };

// Writes the network of the request's weights as an ONNX file (onnx/writer/onnx.h), and reports its
// inputs and outputs. Throws Error.
void export_onnx(const Request& request, const std::string& path, OnnxInput input,
                 const Notices& notices);

}  // namespace accrue::detail
