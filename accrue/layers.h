#pragma once

// Layers and blocks.

#include "layers/blocks.h"
#include "layers/layers.h"
#include "layers/self_attention.h"
