#pragma once

// ONNX files.
//
//     const std::string file = onnx_of({.inputs = {{"images", x}},
//                                       .answer_name = "logits",
//                                       .answer = [&] { return model(x, Pass::eval()); }},
//                                      parameters);

#include "train/onnx/onnx.h"
