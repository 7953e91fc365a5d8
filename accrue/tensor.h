#pragma once

// Tensors, what they are of and where they lie.

#include "core/tensor.h"
