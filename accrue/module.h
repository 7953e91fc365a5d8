#pragma once

// Modules and the memory of their parameters.
//
//     auto net = std::make_unique<Sequential>();
//     net->add<Linear>(4, 32, Activation::relu);
//     net->add<Linear>(32, 3);
//     const Parameters placed = place(*net, DType::f32, Device::cpu, /*seed=*/1);

#include "core/parameters.h"
#include "layers/module.h"
