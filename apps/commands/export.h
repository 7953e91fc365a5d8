#pragma once

#include <string>

#include "core/inside.h"
#include "job/request.h"

namespace accrue::app {

// `accrue export`: writes the network of saved weights as an ONNX file (onnx/writer/onnx.h).
struct OnnxOptions {
  std::string out;
  bool bytes = false;  // the network takes pixels as bytes
};
Settings settings_of(OnnxOptions& asked, Request& options);
void export_onnx(const Request& options, const OnnxOptions& asked);

}  // namespace accrue::app
