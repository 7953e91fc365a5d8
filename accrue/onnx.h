#pragma once

// ONNX files.

#include "train/onnx/onnx.h"
