#pragma once

// Layers and blocks.
//
//     Sequential net;
//     net.add<Conv2d>(3, 16, 3, Conv2dShape{.stride = 2, .padding = 1});
//     net.add<BatchNorm>(16);
//     net.add<GlobalAvgPool2d>();

#include "layers/blocks.h"
#include "layers/graph.h"
#include "layers/layers.h"
#include "layers/self_attention.h"
