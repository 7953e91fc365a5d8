#pragma once

// ONNX files.
//
//     const std::string file = onnx_of(model, {{"images", {3, 32, 32}}}, {"logits"}, parameters);

#include "onnx/writer/network_file.h"
#include "onnx/writer/onnx.h"
