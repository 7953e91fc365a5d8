#pragma once

// ONNX files.
//
//     const std::string file = onnx_of(model, {{"images", {3, 32, 32}}}, {"logits"}, parameters);

#include "train/onnx/network_file.h"
#include "train/onnx/onnx.h"
