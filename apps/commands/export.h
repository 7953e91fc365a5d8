#pragma once

#include <string>

#include "apps/cli/options.h"

namespace accrue::app {

// `accrue export`: the network of saved weights as an ONNX file (train/onnx/onnx.h).
struct OnnxOptions {
  std::string out;
  bool bytes = false;  // it takes pixels as bytes
};
Settings settings_of(OnnxOptions& asked, Options& options);
void export_onnx(const Options& options, const OnnxOptions& asked);

}  // namespace accrue::app
