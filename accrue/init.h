#pragma once

// Initial values.
//
//     Parameter weight{.shape = {64, 32}, .init = Init::kaiming_normal(32), .tensor = {}};
//     const Tensor t = Tensor::empty({64, 32}, DType::f32, Device::cpu);
//     Init::normal(0.02).fill(t.span<float>(), /*seed=*/1, /*stream=*/0);

#include "layers/init.h"
