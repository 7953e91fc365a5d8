#pragma once

// Files of tensors and of weights.

#include "data/safetensors.h"
#include "train/weights.h"
